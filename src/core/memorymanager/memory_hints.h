// The node sets that could take a request, and the best of them. Private to the room.
#pragma once

#include <optional>

#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"
#include "core/memorymanager/memory_request.h"

namespace alignd::memorymanager {

// Every set of NUMA nodes that can take the whole request now; preferred are those of the smallest
// size at which an empty machine could. Empty if there is none. Listed are the groups in use, which
// count as exactly these nodes; described are the sets of nodes that nobody uses.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, calculateHints.
topologymanager::Hints HintsOver(const Machine& machine, const MemoryState& state, const Pod& pod,
                                 const MemoryRequest& request);

struct BestHint {
  topologymanager::TopologyHint hint;
  bool exact = true;  // false: the search gave up, there may be a better one
};

// Of the sets that have all of `containing`: preferred before not preferred, then the narrowest;
// nullopt if there is none. Source: policy_static.go, findBestHint.
std::optional<BestHint> BestOf(const topologymanager::Hints& hints, NumaMask containing = {});

// Whether the container is an init container that has run: it holds nothing while a container that
// starts after it does.
bool HasEnded(const MemoryState& state, const Pod& pod, const Container& container);

}  // namespace alignd::memorymanager
