// What combinations of hints can lead to, and in which order it is judged: shared by the merge and
// by its explanation.
#pragma once

#include <vector>

#include "alignd/topologymanager/hint.h"
#include "alignd/topologymanager/hint_merger.h"
#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

// The distinct masks that combinations of one hint per list reach, none of them empty, each with
// the best standing that some combination gives it.
std::vector<TopologyHint> Candidates(NumaMask all, const std::vector<HintList>& lists,
                                     bool as_1_20);

// The largest, over all lists, of the node count of the list's narrowest mask: no combination that
// satisfies every resource can be expected to have fewer nodes.
int BestNonPreferredCount(const std::vector<HintList>& lists);

// The order in which candidates are judged. `numa` outlives it.
class Judge {
 public:
  Judge(const NumaInfo& numa, const MergeRules& rules, int best_count)
      : numa_(numa), rules_(rules), best_count_(best_count) {}

  TopologyHint Better(const TopologyHint& current, const TopologyHint& candidate) const;

 private:
  // Neither is preferred. The node count that comes closest to `best_count_` from below wins; if
  // both are above it, the smaller.
  //   1. current above:  fewer nodes win, even below best_count_.
  //   2. current at it:  only another one at it can win.
  //   3. current below:  one above loses, one at it wins, of two below the larger wins.
  // Source: policy.go, compare.
  TopologyHint BetterNonPreferred(const TopologyHint& current, const TopologyHint& candidate) const;

  TopologyHint Fitter(const TopologyHint& current, const TopologyHint& candidate) const;

  const NumaInfo& numa_;
  const MergeRules rules_;
  const int best_count_;
};

}  // namespace alignd::topologymanager
