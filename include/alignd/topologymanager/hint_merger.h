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
  // Up to so many common nodes tables are used; at most 20.
  int dense_nodes = 12;
  // With more nodes the sets are searched. Nodes that are alike in demands and distances, demands
  // of places of one node each, and narrow sets cost few steps; what it comes to in general are
  // knapsacks of several dimensions, for which nobody knows a way that always ends soon. So the
  // search gives up after so many steps, a second or two. Of 51,853 decisions on crowded machines
  // of 16 to 64 nodes (tests/property/admission_property_test.cc) that was one with the rules of
  // 1.36, and 33 with those of 1.20. Where 64 nodes are all different under several demands, it is
  // one of fifty under two, and half of those under four.
  int64_t search_steps = kMaxSearchSteps;
  // and up to so many common nodes tables decide then, in less than a second; at most 20.
  int fallback_nodes = 20;
};

struct Merged {
  TopologyHint hint;
  // False if the search gave up. `hint` is one that some combination leads to all the same, so what
  // it asks for can be had there, but there may be a better one: preferred, with fewer nodes,
  // closer, or lower. The explanation of the merge says so.
  bool exact = true;
};

// MergeHints with other limits than its own: for tests, and for whoever wants to know if it gave
// up.
Merged MergeWithin(const MergeLimits& limits, const NumaInfo& numa, const std::vector<Hints>& lists,
                   const MergeRules& rules);

}  // namespace alignd::topologymanager
