// The best hint out of the cross product of all resources' hints.
#pragma once

#include <cstdint>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

struct MergeRules {
  // prefer-closest-numa-nodes: of masks of one size the closest wins, not the lowest.
  bool prefer_closest = false;
  // Kubelet 1.20: a combination is preferred if all its hints are, even with different masks. Of
  // combinations that are not preferred, the narrowest wins.
  bool as_1_20 = false;

  friend bool operator==(const MergeRules&, const MergeRules&) = default;
};

// The best hint of the cross product of all lists, one hint of each, without enumerating the
// product or the lists. The order of the lists does not matter. Without any candidate: (all NUMA
// nodes, not preferred).
//
// A combination results in the intersection of its masks. So:
//   * Only the common nodes, which every list with masks has in some mask, can be in the result.
//     The other nodes of a hint change nothing. A preferred combination (1.36) has equal masks and
//     so no other nodes.
//   * Of two combinations with the same result, the preferred one counts. So two facts are enough:
//     which sets of common nodes are a result, and which of them a preferred one.
// Up to 16 common nodes, tables of all sets hold these facts (DenseMerge) unless a search finds the
// best preferred set: the same hint as the kubelet's. With more common nodes, sets are tried in the
// order in which they would win.
//
// Differs: with more than 16 common nodes (MergeLimits), a set that is not preferred is a candidate
// only if it is enough for every resource whose hints are described. There the kubelet's own merge
// takes 4^n steps for two resources; it does not end.
//
// Source: kubelet pkg/kubelet/cm/topologymanager/policy.go, HintMerger.
TopologyHint MergeHints(const NumaInfo& numa, const std::vector<Hints>& lists,
                        const MergeRules& rules);

struct MergeLimits {
  // Up to this number of common nodes, tables are used; at most 20. A merge of five lists takes at
  // most 25 ms and 1 MiB with 16 nodes, 0.5 s and 20 MiB with 20 nodes.
  int table_nodes = 16;
  int64_t search_steps = kMaxSearchSteps;
};

struct Merged {
  TopologyHint hint;
  // False if a search ended at its limit. `hint` is enough for every resource all the same, but
  // there may be a better one: preferred, with fewer nodes, closer, or lower. The explanation of
  // the merge says so.
  bool exact = true;
};

// MergeHints with other limits, and with the information whether a search ended at its limit.
Merged MergeWithin(const MergeLimits& limits, const NumaInfo& numa, const std::vector<Hints>& lists,
                   const MergeRules& rules);

}  // namespace alignd::topologymanager
