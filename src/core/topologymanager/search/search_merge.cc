#include "core/topologymanager/search/search_merge.h"

#include <algorithm>
#include <memory>

#include "core/topologymanager/search/intersection_search.h"
#include "core/topologymanager/search/member_search.h"

namespace alignd::topologymanager {
namespace {

bool Prefers(const Choices& preferred, NumaMask mask) {
  return std::ranges::find(preferred.masks, mask) != preferred.masks.end() ||
         (preferred.described != nullptr && preferred.described->IsPreferred(mask) &&
          preferred.described->sets.Contains(mask));
}

// Keeps the better one.
class Best {
 public:
  Best(const CandidateOrder& order, bool preferred) : order_(order), preferred_(preferred) {}

  void Offer(std::optional<NumaMask> mask) {
    if (!mask || mask->empty()) return;
    if (!best_ || order_.IsBetter({mask, preferred_}, {best_, preferred_})) best_ = mask;
  }
  std::optional<NumaMask> get() const { return best_; }

 private:
  const CandidateOrder& order_;
  const bool preferred_;
  std::optional<NumaMask> best_;
};

}  // namespace

SearchMerge::SearchMerge(const NumaInfo& numa, const MergeLists& lists, const MergeRules& rules,
                         SearchBudget& budget)
    : numa_(numa), lists_(lists), rules_(rules), budget_(budget) {}

std::optional<NumaMask> SearchMerge::BestPreferred(const CandidateOrder& order) const {
  if (!lists_.may_prefer) return std::nullopt;
  return rules_.as_1_20 ? BestIntersection(true, order) : BestEqual(order);
}

std::optional<NumaMask> SearchMerge::BestNotPreferred(const CandidateOrder& order) const {
  return BestIntersection(false, order);
}

std::optional<NumaMask> SearchMerge::BestEqual(const CandidateOrder& order) const {
  std::vector<Choices> choices;
  for (const Hints* hints : lists_.masked) choices.push_back(PreferredChoices(*hints));
  Best best(order, true);
  if (std::ranges::all_of(choices, &Choices::any)) {
    // One list names the set, all others take any node.
    best.Offer(lists_.all);
    for (const Choices& list : choices) {
      for (const NumaMask mask : list.masks) best.Offer(mask);
      if (list.described != nullptr) best.Offer(BestDescribed({list.described}));
    }
    return best.get();
  }
  // Lists that take any node agree with whatever the others agree on.
  std::erase_if(choices, &Choices::any);
  for (const Choices& list : choices) {
    for (const NumaMask mask : list.masks) {
      if (std::ranges::all_of(choices, [&](const Choices& c) { return Prefers(c, mask); })) {
        best.Offer(mask);
      }
    }
  }
  std::vector<const DescribedHints*> described;
  for (const Choices& list : choices) {
    if (list.described == nullptr) return best.get();
    described.push_back(list.described);
  }
  best.Offer(BestDescribed(described));
  return best.get();
}

std::optional<NumaMask> SearchMerge::BestDescribed(
    const std::vector<const DescribedHints*>& lists) const {
  NumaMask nodes = lists_.all;
  std::vector<SetTable> tables;
  tables.reserve(lists.size());
  std::vector<const DemandTable*> demands;
  int only_size = 0;  // some list prefers no other
  for (const DescribedHints* hints : lists) {
    nodes = nodes & hints->sets.within;
    if (hints->groups.empty()) only_size = hints->preferred_nodes;
    for (const DemandTable& demand : tables.emplace_back(hints->sets).demands) {
      demands.push_back(&demand);
    }
  }
  MemberProblem problem(std::move(demands), {}, lists);
  if (only_size > 0) return BestSubset(nodes, only_size, problem);
  for (int size = 1; size <= nodes.Count(); ++size) {
    if (const auto found = BestSubset(nodes, size, problem)) return found;
  }
  return std::nullopt;
}

std::vector<SearchMerge::Branch> SearchMerge::Branches(bool preferred_only) const {
  std::vector<Branch> branches = {{lists_.all, {}}};
  for (size_t i = 0; i < lists_.masked.size(); ++i) {
    const Choices choices =
        preferred_only ? PreferredChoices(*lists_.masked[i]) : AllChoices(*lists_.masked[i]);
    std::vector<Branch> next;
    const auto add = [&](Branch branch, NumaMask nodes) {
      branch.common = branch.common & nodes;
      if (!branch.common.empty()) next.push_back(std::move(branch));
    };
    for (const Branch& branch : branches) {
      if (choices.any) next.push_back(branch);
      for (const NumaMask mask : choices.masks) add(branch, mask);
      if (choices.described == nullptr) continue;
      Branch taken = branch;
      taken.described.push_back(i);
      add(std::move(taken), choices.described->sets.within);
    }
    std::ranges::sort(next);
    const auto repeated = std::unique(next.begin(), next.end());
    next.erase(repeated, next.end());
    branches = std::move(next);
  }
  return branches;
}

std::optional<NumaMask> SearchMerge::BestIntersection(bool preferred_only,
                                                      const CandidateOrder& order) const {
  Best best(order, preferred_only);
  for (const Branch& branch : Branches(preferred_only)) {
    best.Offer(BestOfBranch(branch, preferred_only, order));
  }
  return best.get();
}

std::optional<NumaMask> SearchMerge::BestOfBranch(const Branch& branch, bool preferred_only,
                                                  const CandidateOrder& order) const {
  if (branch.described.empty()) return branch.common;
  std::vector<const DescribedHints*> lists;
  for (const size_t i : branch.described) lists.push_back(lists_.masked[i]->described());

  // What one list alone can leave out is plain; and which of its preferred sets there are, if these
  // lie in the common nodes as a whole.
  const SetTable only(lists.front()->sets);
  std::unique_ptr<SubsetProblem> problem;
  if (lists.size() == 1 && (!preferred_only || branch.common.Contains(only.within))) {
    problem = std::make_unique<MemberProblem>(
        DemandsOf(only), only.within - branch.common,
        preferred_only ? lists : std::vector<const DescribedHints*>());
  } else if (preferred_only) {
    problem = std::make_unique<PreferredIntersectionProblem>(branch.common, lists, budget_);
  } else {
    problem = std::make_unique<IntersectionProblem>(branch.common, lists, budget_);
  }

  int most = branch.common.Count();
  if (preferred_only) {
    for (const DescribedHints* hints : lists) {
      if (hints->groups.empty()) most = std::min(most, hints->preferred_nodes);
    }
  }
  int too_small = 0;
  for (const int size : order.Counts(most, preferred_only)) {
    // If no list leaves anything out, they meet in all common nodes; and where they can meet in a
    // set, they can meet in every larger one. Preferred sets are of one size, so there it is open.
    if (size == branch.common.Count() && !preferred_only) return branch.common;
    if (size <= too_small) continue;
    if (const auto found = BestSubset(branch.common, size, *problem)) return found;
    if (budget_.IsUsedUp() && !preferred_only) return SomeIntersection(branch, lists, order);
    if (!preferred_only) too_small = std::max(too_small, size);
  }
  return std::nullopt;
}

NumaMask SearchMerge::SomeIntersection(const Branch& branch,
                                       const std::vector<const DescribedHints*>& lists,
                                       const CandidateOrder& order) const {
  SearchBudget budget(kMaxSearchSteps / 16);
  IntersectionProblem problem(branch.common, lists, budget);
  NumaMask set = branch.common;
  const std::vector<int> nodes(set.begin(), set.end());
  for (auto node = nodes.rbegin(); node != nodes.rend(); ++node) {
    const NumaMask fewer = set - NumaMask::Of(*node);
    if (order.RankOfCount(fewer.Count(), false) > order.RankOfCount(set.Count(), false)) break;
    if (!fewer.empty() && problem.Accepts(fewer)) set = fewer;
  }
  return set;
}

std::optional<NumaMask> SearchMerge::BestSubset(NumaMask nodes, int size,
                                                SubsetProblem& problem) const {
  if (rules_.prefer_closest) return ClosestSubset(nodes, size, numa_, problem, budget_);
  return LowestSubset({{}, {{nodes, size}}}, problem, budget_);
}

}  // namespace alignd::topologymanager
