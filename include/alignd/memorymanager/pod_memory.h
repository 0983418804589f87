// The memory of a pod with pod-level resources in topology scope pod (feature gate
// PodLevelResourceManagers): the pod is assigned memory as a whole, and its containers are assigned
// parts of it. Eligible containers have memory of their own. The others share the rest.
#pragma once

#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::memorymanager {

// The hints of the pod's request as a whole: empty for "no opinion"; empty lists if its shared
// containers would have no memory.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, GetPodTopologyHints (1.38).
topologymanager::HintsByResource WholePodHints(const Machine& machine, const MemoryState& state,
                                               const Pod& pod);

// Allocates the pod's memory, unless it has it, and to each container its part. All of it is on the
// same NUMA nodes, where only the pod's request as a whole is reserved. A block that containers
// share is recorded for each of them. After a refusal, discard `state`.
// Refusals: EmptyPodSharedPoolError, UnexpectedAdmissionError.
// Source: policy_static.go, AllocatePod (1.38).
// Differs: up to 1.37, the kubelet reserves the memory of a running pod a second time when it
// restarts. Containers that request more than their pod are refused; the kubelet relies on the API
// server for that.
Placement AllocateWholePod(const Machine& machine, const Pod& pod,
                           const topologymanager::TopologyHint& affinity, MemoryState& state);

}  // namespace alignd::memorymanager
