// The best hint out of the cross product of all resources' hints.
#pragma once

#include <cstdint>
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

// The hint that wins the cross product of all lists, one hint of each, without going through the
// product or the lists. The order of the lists does not matter.
// Without any candidate: (all NUMA nodes, not preferred).
//
// Why it is the same hint: a combination ends in the intersection of its masks, so
//   * only NUMA nodes that every list with masks knows (the common nodes) can be in the result.
//     Which other nodes a hint has makes no difference to what it meets in; and the masks of a
//     preferred combination (1.36) are all equal, so they have no other nodes.
//   * of two combinations with the same result the better standing counts. So it is enough to know
//     which sets of common nodes the lists can meet in, and in which of them as preferred.
// Few common nodes: both are tables of all their sets (DenseMerge). Many: the sets are tried in the
// order in which they would win (SearchMerge), and only such as can still meet.
//
// Source: kubelet pkg/kubelet/cm/topologymanager/policy.go, HintMerger.
TopologyHint MergeHints(const NumaInfo& numa, const std::vector<Hints>& lists,
                        const MergeRules& rules);

struct MergeLimits {
  // Up to so many common nodes tables are used; at most 15.
  int dense_nodes = 12;
  // The search for the best set gives up after so many steps. Only more common nodes than tables
  // are made of are searched. tests/property/admission_property_test.cc shows where the steps are
  // enough: on machines of 16 to 64 nodes in use, with the rules of 1.36, for all pods that need no
  // more than a quarter of the common nodes. Of 7,648 decisions on such machines 105 were given up
  // on: with the rules of 1.36 two without and 69 with prefer_closest, all of wider sets, and 34
  // with those of 1.20.
  int64_t search_steps = kMostSearchSteps;
};

struct Merged {
  TopologyHint hint;
  // False if the search gave up: `hint` is one that some combination leads to, but there may be a
  // better one.
  bool exact = true;
};

// MergeHints with other limits than its own: for tests, and for whoever wants to know if it gave
// up.
Merged MergeWithin(const MergeLimits& limits, const NumaInfo& numa, const std::vector<Hints>& lists,
                   const MergeRules& rules);

}  // namespace alignd::topologymanager
