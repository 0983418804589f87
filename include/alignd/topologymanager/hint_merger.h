// The best hint out of the cross product of all resources' hints.
#pragma once

#include <vector>

#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

struct MergeRules {
  // prefer-closest-numa-nodes: among masks of one size the closest wins, not the lowest.
  bool prefer_closest = false;
  // Kubelet 1.20: a combination is preferred if all its hints are, whether or not the masks are
  // equal; and of the non-preferred ones the narrowest wins.
  bool as_1_20 = false;

  friend bool operator==(const MergeRules&, const MergeRules&) = default;
};

// Goes through every combination of one hint per list and keeps the best one, without enumerating
// the product: only the distinct reachable masks are carried from list to list. The order of the
// lists does not matter.
// Without any candidate: (all NUMA nodes, not preferred).
// Source: kubelet pkg/kubelet/cm/topologymanager/policy.go, HintMerger.
TopologyHint MergeHints(const NumaInfo& numa, const std::vector<HintList>& lists,
                        const MergeRules& rules);

}  // namespace alignd::topologymanager
