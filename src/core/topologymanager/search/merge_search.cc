#include "core/topologymanager/search/merge_search.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/base/saturating_sum.h"
#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/search/closest_subset.h"
#include "core/topologymanager/sets/member_search.h"

namespace alignd::topologymanager {
namespace {

bool Prefers(const Choices& preferred, NumaMask mask) {
  return std::ranges::find(preferred.masks, mask) != preferred.masks.end() ||
         (preferred.described != nullptr && preferred.described->IsPreferred(mask) &&
          preferred.described->sets.Contains(mask));
}

// The best of the sets that are offered.
class Best {
 public:
  Best(const CandidateOrder& order, bool preferred) : order_(order), preferred_(preferred) {}

  void Offer(std::optional<NumaMask> mask) {
    if (!mask || mask->empty()) return;
    if (!best_ || order_.IsBetter({mask, preferred_}, *best_)) best_ = {mask, preferred_};
  }
  const std::optional<TopologyHint>& hint() const { return best_; }

 private:
  const CandidateOrder& order_;
  const bool preferred_;
  std::optional<TopologyHint> best_;
};

// What the demand still wants of the nodes `common` if a set has all nodes `outside` as well.
Demand DemandOn(const Demand& demand, NumaMask common, NumaMask outside) {
  Demand rest;
  uint64_t amount_outside = 0;
  for (const Place& place : demand.places) {
    if (place.nodes.Intersects(outside)) {
      amount_outside = SaturatingSum(amount_outside, place.amount);
    } else if (place.nodes.Intersects(common)) {
      rest.places.push_back({place.nodes & common, place.amount});
    }
  }
  rest.wanted = demand.wanted - std::min(demand.wanted, amount_outside);
  return rest;
}

class MergeSearch {
 public:
  MergeSearch(const NumaInfo& numa, const MergeLists& lists, const MergeRules& rules,
              SearchBudget& budget)
      : numa_(numa), lists_(lists), rules_(rules), budget_(budget) {}

  std::optional<TopologyHint> Run() const {
    if (lists_.may_prefer) {
      if (const auto best = BestPreferred()) return best;
    }
    return BestNotPreferred();
  }

  // The best set that all lists prefer.
  std::optional<TopologyHint> BestPreferred() const {
    const CandidateOrder order(numa_, rules_, 0);
    Best best(order, true);
    std::vector<Choices> choices;
    for (const Hints* hints : lists_.masked) choices.push_back(PreferredChoices(*hints));
    if (std::ranges::all_of(choices, &Choices::any)) {
      // One list names the set, all others take any node.
      best.Offer(lists_.all);
      for (const Choices& list : choices) {
        for (const NumaMask mask : list.masks) best.Offer(mask);
        if (list.described != nullptr) best.Offer(BestPreferredByAll({list.described}));
      }
      return best.hint();
    }
    // A list that takes any node agrees with every set.
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
      if (list.described == nullptr) return best.hint();
      described.push_back(list.described);
    }
    best.Offer(BestPreferredByAll(described));
    return best.hint();
  }

 private:
  // Combinations that take a described hint of the same lists, and whose listed masks have the
  // nodes `common` in common. These lists describe sets that reach all over `common`.
  struct Branch {
    NumaMask common;
    std::vector<size_t> described;  // indices of lists

    friend auto operator<=>(const Branch&, const Branch&) = default;
  };

  // The best set that all of these lists describe and prefer.
  std::optional<NumaMask> BestPreferredByAll(
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
    MemberSearch search(std::move(demands), lists);
    const auto distances = DistancesOf(nodes);
    if (only_size > 0) return BestOfSize(nodes, only_size, distances, search);
    for (int size = 1; size <= nodes.Count(); ++size) {
      if (const auto found = BestOfSize(nodes, size, distances, search)) return found;
    }
    return std::nullopt;
  }

  std::optional<TopologyHint> BestNotPreferred() const {
    const int best_count = rules_.as_1_20 ? 0 : BestNonPreferredCount(lists_, budget_);
    const CandidateOrder order(numa_, rules_, best_count);
    Best best(order, false);
    for (const Branch& branch : Branches()) {
      best.Offer(BestOfBranch(branch, std::max(1, best_count)));
    }
    return best.hint();
  }

  std::vector<Branch> Branches() const {
    std::vector<Branch> branches = {{lists_.all, {}}};
    for (size_t i = 0; i < lists_.masked.size(); ++i) {
      const Choices choices = AllChoices(*lists_.masked[i]);
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

  // The best set of common nodes that is enough for every described list. A larger set of common
  // nodes is enough as well. So the sizes below `first_size`, which rank after it, need no search:
  // they have a set only if `first_size` has one.
  std::optional<NumaMask> BestOfBranch(const Branch& branch, int first_size) const {
    if (branch.described.empty()) return branch.common;
    NodeSets sets{.within = branch.common, .demands = {}};
    for (const size_t i : branch.described) {
      const NodeSets& of_list = lists_.masked[i]->described()->sets;
      for (const Demand& demand : of_list.demands) {
        sets.demands.push_back(DemandOn(demand, branch.common, of_list.within - branch.common));
      }
    }
    const SetTable table(sets);
    MemberSearch search(DemandsOf(table));
    const auto distances = DistancesOf(branch.common);
    for (int size = first_size; size < branch.common.Count(); ++size) {
      if (const auto found = BestOfSize(branch.common, size, distances, search)) return found;
      if (!budget_.IsUsedUp()) continue;
      const NumaMask guess = search.Guess({{}, {{branch.common, size}}});
      if (search.Accepts(guess)) return guess;
    }
    return branch.common;
  }

  // Only if they matter.
  std::optional<DistanceClasses> DistancesOf(NumaMask nodes) const {
    if (!rules_.prefer_closest) return std::nullopt;
    return DistanceClasses(nodes, numa_);
  }

  std::optional<NumaMask> BestOfSize(NumaMask nodes, int size,
                                     const std::optional<DistanceClasses>& distances,
                                     MemberSearch& search) const {
    if (budget_.IsUsedUp()) return std::nullopt;
    if (distances) return ClosestSubset(*distances, size, search, budget_);
    return search.Lowest({{}, {{nodes, size}}}, budget_);
  }

  const NumaInfo& numa_;
  const MergeLists& lists_;
  const MergeRules rules_;
  SearchBudget& budget_;
};

}  // namespace

std::optional<TopologyHint> BestPreferredBySearch(const NumaInfo& numa, const MergeLists& lists,
                                                  const MergeRules& rules, SearchBudget& budget) {
  return MergeSearch(numa, lists, rules, budget).BestPreferred();
}

std::optional<TopologyHint> BestBySearch(const NumaInfo& numa, const MergeLists& lists,
                                         const MergeRules& rules, SearchBudget& budget) {
  return MergeSearch(numa, lists, rules, budget).Run();
}

}  // namespace alignd::topologymanager
