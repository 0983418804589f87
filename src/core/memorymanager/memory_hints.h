// The node sets with enough memory for a request, and the best of them. Private to the module.
#pragma once

#include <optional>

#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"
#include "core/memorymanager/memory_request.h"

namespace alignd::memorymanager {

// Every set of NUMA nodes that has enough memory for the whole request now. Preferred are the sets
// of the smallest size that is enough on an empty machine. Empty if there is none. The groups in
// use are listed: only exactly these nodes are a set. The sets of unused nodes are described.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, calculateHints.
topologymanager::Hints HintsOver(const Machine& machine, const MemoryState& state, const Pod& pod,
                                 const MemoryRequest& request);

struct BestHint {
  topologymanager::TopologyHint hint;
  bool exact = true;  // false: the search ended at its limit
};

// Of the sets that have all of `containing`: preferred before not preferred, then the narrowest;
// nullopt if there is none. Source: policy_static.go, findBestHint.
std::optional<BestHint> BestOf(const topologymanager::Hints& hints, NumaMask containing = {});

// Whether the container is an ended init container: it has no memory, and a container that starts
// after it has some.
bool HasEnded(const MemoryState& state, const Pod& pod, const Container& container);

}  // namespace alignd::memorymanager
