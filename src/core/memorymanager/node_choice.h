// The NUMA nodes for a request, and hints about them. Private to the module.
#pragma once

#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/base/result.h"
#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"
#include "core/memorymanager/memory_request.h"

namespace alignd::memorymanager {

// The nodes for the memory of a container, or of the pod as a whole. `exact` becomes false if a
// search ends at its limit.
// Differs: a single node that is in use as part of a group stays in the group. The kubelet takes it
// out, books later releases on wrong nodes, and loses memory. Here the container joins the group if
// other pods use it. If only its own pod uses the group, because an earlier container extended the
// same affinity, the pod is refused. The kubelet refuses such a pod if a later container has to
// extend the affinity as well.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, Allocate,
// isAffinityViolatingNUMAAllocations.
Result<NumaMask> ChooseNodes(const Machine& machine, const MemoryState& state, const Pod& pod,
                             const MemoryRequest& request,
                             const topologymanager::TopologyHint& affinity, bool& exact);

// Differs: the kubelet panics at a type that the machine does not have.
Result<Done> CheckTypes(const MemoryState& state, const MemoryRequest& request);

// The chosen nodes have enough free memory for what is not reused. If they do not, alignd ends, so
// that no memory is assigned twice.
void MustBeZero(uint64_t unbooked);

// The hints for blocks that are assigned: exactly their nodes. No opinion if the blocks differ from
// the request. Source: policy_static.go, regenerateHints.
topologymanager::HintsByResource HintsOfBlocks(const Machine& machine,
                                               const std::vector<Block>& blocks,
                                               const MemoryRequest& request);

// All types have the same sets. If the request fits nowhere, there is no opinion; the allocation
// refuses.
topologymanager::HintsByResource HintsForNew(const Machine& machine, const MemoryState& state,
                                             const Pod& pod, const MemoryRequest& request);

}  // namespace alignd::memorymanager
