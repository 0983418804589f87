// The order of candidates. Private to the module.
#pragma once

#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/hint_merger.h"
#include "alignd/topologymanager/numa_info.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// The largest, over all lists, of the node count of the list's narrowest mask. A set with fewer
// nodes can't be enough for every resource.
int BestNonPreferredCount(const MergeLists& lists, SearchBudget& budget);

// A total order of candidates with an affinity: preferred first; then by node count; then, with
// prefer_closest, the smaller average distance; then the smaller mask value.
// Of candidates that are not preferred, the node count `best_count` is best, then the counts below
// it in descending order, then those above it in ascending order. Of preferred candidates, and of
// all candidates with the rules of 1.20, the smallest count is best.
// Source: kubelet pkg/kubelet/cm/topologymanager/policy.go, compare. `numa` outlives it.
class CandidateOrder {
 public:
  CandidateOrder(const NumaInfo& numa, const MergeRules& rules, int best_count)
      : numa_(numa), rules_(rules), best_count_(best_count) {}

  // Whether `a` beats `b`; false if they are equal.
  bool IsBetter(const TopologyHint& a, const TopologyHint& b) const;

  // A smaller rank is better.
  int RankOfCount(int count, bool preferred) const;

 private:
  const NumaInfo& numa_;
  const MergeRules rules_;
  const int best_count_;
};

}  // namespace alignd::topologymanager
