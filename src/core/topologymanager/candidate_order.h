// The order in which candidates are judged. Private to the room.
#pragma once

#include <vector>

#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/hint_merger.h"
#include "alignd/topologymanager/numa_info.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// The largest, over all lists, of the node count of the list's narrowest mask: no combination that
// satisfies every resource can be expected to have fewer nodes.
int BestNonPreferredCount(const std::vector<Hints>& lists, SearchBudget& budget);

// A total order of candidates, which all have an affinity: preferred first; then by node count;
// then, with prefer_closest, the smaller average distance; then the smaller mask value.
// The node count of those that are not preferred is best at `best_count`, then worse downwards from
// it, and worst upwards from it; of those that are preferred, and of all in 1.20, the smallest
// count is the best.
// Source: kubelet pkg/kubelet/cm/topologymanager/policy.go, compare. `numa` outlives it.
class CandidateOrder {
 public:
  CandidateOrder(const NumaInfo& numa, const MergeRules& rules, int best_count)
      : numa_(numa), rules_(rules), best_count_(best_count) {}

  // Whether `a` beats `b`; never of equal ones.
  bool IsBetter(const TopologyHint& a, const TopologyHint& b) const;

  // The smaller the better.
  int RankOfCount(int count, bool preferred) const;

  // The node counts 1 to `most`, best first.
  std::vector<int> Counts(int most, bool preferred) const;

 private:
  const NumaInfo& numa_;
  const MergeRules rules_;
  const int best_count_;
};

}  // namespace alignd::topologymanager
