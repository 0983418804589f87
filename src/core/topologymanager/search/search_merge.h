// The merge where many NUMA nodes are common to all lists: goes through the sets in the order in
// which they would win. Private to the room.
#pragma once

#include <optional>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"
#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// `lists`, `numa` and `budget` outlive it. Once the budget is used up, what was found so far
// counts.
class SearchMerge {
 public:
  SearchMerge(const NumaInfo& numa, const MergeLists& lists, const MergeRules& rules,
              SearchBudget& budget);

  // The best set that some combination makes preferred, and the best of all where there is none.
  // nullopt if there is none.
  std::optional<NumaMask> BestPreferred(const CandidateOrder& order) const;
  std::optional<NumaMask> BestNotPreferred(const CandidateOrder& order) const;

 private:
  // Combinations that take the same lists' described hints, and whose listed masks have these nodes
  // in common. The described sets of these lists reach all over `common`.
  struct Branch {
    NumaMask common;
    std::vector<size_t> described;  // indices of lists

    friend auto operator<=>(const Branch&, const Branch&) = default;
  };

  std::vector<Branch> Branches(bool preferred_only) const;
  std::optional<NumaMask> BestOfBranch(const Branch& branch, bool preferred_only,
                                       const CandidateOrder& order) const;
  // Some set in which these lists meet, found without much budget: what is left once the search has
  // given up.
  NumaMask SomeIntersection(const Branch& branch, const std::vector<const DescribedHints*>& lists,
                            const CandidateOrder& order) const;
  std::optional<NumaMask> BestIntersection(bool preferred_only, const CandidateOrder& order) const;

  // All preferred and all equal: what 1.36 calls preferred.
  std::optional<NumaMask> BestEqual(const CandidateOrder& order) const;
  // The best set that all of these lists prefer and describe.
  std::optional<NumaMask> BestDescribed(const std::vector<const DescribedHints*>& lists) const;

  std::optional<NumaMask> BestSubset(NumaMask nodes, int size, SubsetProblem& problem) const;

  const NumaInfo& numa_;
  const MergeLists& lists_;
  const MergeRules rules_;
  SearchBudget& budget_;
};

}  // namespace alignd::topologymanager
