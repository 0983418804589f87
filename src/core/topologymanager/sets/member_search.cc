#include "core/topologymanager/sets/member_search.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace alignd::topologymanager {

int Touched(const std::vector<NumaMask>& groups, NumaMask set) {
  return static_cast<int>(
      std::ranges::count_if(groups, [&](NumaMask group) { return group.Intersects(set); }));
}

namespace {

// A preferred set with all of `chosen` and `need` of `open` can only have these of the nodes
// `open`. nullopt if there is no such set.
std::optional<NumaMask> UsableNodes(const DescribedHints& hints, NumaMask chosen, NumaMask open,
                                    int need) {
  if (chosen.Count() + need == hints.preferred_nodes) return open;
  if (hints.groups.empty()) return std::nullopt;
  const int touched = Touched(hints.groups, chosen);
  if (touched > hints.preferred_groups ||
      Touched(hints.groups, chosen | open) < hints.preferred_groups) {
    return std::nullopt;
  }
  if (touched < hints.preferred_groups) return open;
  for (const NumaMask group : hints.groups) {
    if (!group.Intersects(chosen)) open = open - group;
  }
  return open;
}

// The first of the hints that prefer sets of the family only because of the groups that they touch,
// if these are not decided yet; null if there is none.
const DescribedHints* HintsByGroups(const std::vector<const DescribedHints*>& preferred_by,
                                    const SetFamily& family) {
  const NumaMask open = family.Open();
  const int size = family.chosen.Count() + family.Need();
  for (const DescribedHints* hints : preferred_by) {
    if (hints->groups.empty() || size == hints->preferred_nodes) continue;
    if (Touched(hints->groups, family.chosen) < hints->preferred_groups &&
        Touched(hints->groups, family.chosen | open) > hints->preferred_groups) {
      return hints;
    }
  }
  return nullptr;
}

constexpr int kFirstEvaluations = 24;  // the weights are not yet known
constexpr int kFurtherEvaluations = 6;

}  // namespace

MemberSearch::MemberSearch(std::vector<const DemandTable*> demands,
                           std::vector<const DescribedHints*> preferred_by)
    : demands_(std::move(demands)), preferred_by_(std::move(preferred_by)), relaxation_(demands_) {}

bool MemberSearch::Accepts(NumaMask set) const {
  return std::ranges::all_of(demands_, [&](const auto* d) { return d->IsSatisfiedBy(set); }) &&
         std::ranges::all_of(preferred_by_, [&](const auto* h) { return h->IsPreferred(set); });
}

bool MemberSearch::Restrict(SetFamily& family) const {
  for (const DescribedHints* hints : preferred_by_) {
    const auto usable = UsableNodes(*hints, family.chosen, family.Open(), family.Need());
    if (!usable) return false;
    for (SetFamily::Part& part : family.parts) part.open = part.open & *usable;
  }
  return family.Settle() && std::ranges::all_of(demands_, [&](const auto* demand) {
           return demand->AtMost(family) >= demand->wanted();
         });
}

std::optional<NumaMask> MemberSearch::Any(SetFamily family, SearchBudget& budget) {
  if (!family.Settle()) return std::nullopt;
  const DescribedHints* const by_groups = HintsByGroups(preferred_by_, family);
  if (by_groups == nullptr) return Descend(std::move(family), kFirstEvaluations, budget);
  // The bounds do not know of groups. If the answer is not near, the groups are decided first.
  constexpr int64_t kMaxSteps = 64;
  const int64_t steps = std::min(kMaxSteps, budget.available());
  SearchBudget few(steps);
  const auto found = Descend(family, kFirstEvaluations, few);
  budget.Use(steps - few.available());
  if (found || !few.IsUsedUp()) return found;
  return AnyByGroups(*by_groups, family, 0, budget);
}

std::optional<NumaMask> MemberSearch::AnyByGroups(const DescribedHints& hints,
                                                  const SetFamily& family, size_t first,
                                                  SearchBudget& budget) {
  const NumaMask open = family.Open();
  const int touched = Touched(hints.groups, family.chosen | open);
  if (touched < hints.preferred_groups) return std::nullopt;
  if (touched == hints.preferred_groups) return Descend(family, kFirstEvaluations, budget);
  SetFamily possible = family;
  if (!budget.Step() || !Restrict(possible)) return std::nullopt;
  for (size_t i = first; i < hints.groups.size(); ++i) {
    const NumaMask group = hints.groups[i];
    if (!group.Intersects(open) || group.Intersects(family.chosen)) continue;
    SetFamily without = family;
    for (SetFamily::Part& part : without.parts) part.open = part.open - group;
    if (!without.Settle()) continue;
    if (const auto found = AnyByGroups(hints, without, i + 1, budget)) return found;
  }
  return std::nullopt;
}

std::optional<NumaMask> MemberSearch::Descend(SetFamily family, int evaluations,
                                              SearchBudget& budget) {
  if (!budget.Step(relaxation_.steps()) || !Restrict(family)) return std::nullopt;
  if (family.parts.empty()) {
    return Accepts(family.chosen) ? std::optional(family.chosen) : std::nullopt;
  }
  relaxation_.Start(family);
  for (int i = 0; i < evaluations; ++i) {
    if (i > 0) relaxation_.Improve();
    if (!budget.Step(relaxation_.steps()) || !relaxation_.Evaluate()) return std::nullopt;
    if (relaxation_.IsBestEnough() && Accepts(relaxation_.best())) return relaxation_.best();
  }
  const std::optional<NumaMask> repaired = relaxation_.Repaired();
  if (repaired && Accepts(*repaired)) return repaired;

  const int node = relaxation_.MostDisputed();
  const bool take_first = relaxation_.IsUsual(node);
  const auto part = static_cast<size_t>(
      std::ranges::find_if(family.parts, [&](const auto& p) { return p.open.Contains(node); }) -
      family.parts.begin());
  // Sets with another node that is alike are sets with this one.
  const NumaMask alike = AlikeIn(family.parts[part], node);
  for (const bool take : {take_first, !take_first}) {
    SetFamily next = take ? family.With(NumaMask::Of(node), part) : family.Without(alike, part);
    if (!next.Settle()) continue;
    if (const auto found = Descend(std::move(next), kFurtherEvaluations, budget)) return found;
  }
  return std::nullopt;
}

std::optional<NumaMask> MemberSearch::Lowest(SetFamily family, SearchBudget& budget,
                                             std::optional<NumaMask> known,
                                             std::optional<NumaMask> below) {
  if (!family.Settle()) return std::nullopt;
  while (true) {
    const NumaMask lowest = family.Lowest();
    if (below && !(lowest < *below)) return std::nullopt;
    if (Accepts(lowest)) return lowest;
    if (family.parts.empty()) return std::nullopt;
    if (!known) known = Any(family, budget);
    if (!known || budget.IsUsedUp()) return known;
    // The highest node decides about the order, so it stays only if it must.
    const size_t part = family.HighestPart();
    const int node = family.parts[part].open.Highest();
    SetFamily rest = family.Without(NumaMask::Of(node), part);
    const bool has_rest = rest.Settle();
    std::optional<NumaMask> without = known;
    if (known->Contains(node)) {
      without = Lower(*known, node, family.parts[part]);
      if (!without && has_rest) without = Any(rest, budget);
      if (!without && budget.IsUsedUp()) return known;
    }
    if (without) {
      known = without;
      family = std::move(rest);
    } else {
      family = family.With(NumaMask::Of(node), part);
      family.Settle();
    }
  }
}

std::optional<NumaMask> MemberSearch::Lower(NumaMask set, int node,
                                            const SetFamily::Part& part) const {
  const NumaMask others = set - NumaMask::Of(node);
  for (const int other : part.open - set) {
    const NumaMask exchanged = others | NumaMask::Of(other);
    if (Accepts(exchanged)) return exchanged;
  }
  return std::nullopt;
}

bool MemberSearch::AreAlike(int a, int b) const {
  const auto have_both_or_none = [&](NumaMask nodes) {
    return nodes.Contains(a) == nodes.Contains(b);
  };
  return std::ranges::all_of(demands_,
                             [&](const DemandTable* demand) {
                               return demand->OnNode(a) == demand->OnNode(b) &&
                                      std::ranges::all_of(demand->shared(), have_both_or_none,
                                                          &Place::nodes);
                             }) &&
         std::ranges::all_of(preferred_by_, [&](const DescribedHints* hints) {
           return std::ranges::all_of(hints->groups, have_both_or_none);
         });
}

NumaMask MemberSearch::AlikeIn(const SetFamily::Part& part, int node) const {
  NumaMask alike;
  for (const int other : part.open) {
    if (AreAlike(node, other)) alike.Add(other);
  }
  return alike;
}

NumaMask MemberSearch::Guess(SetFamily family) {
  family.Settle();
  if (family.parts.empty()) return family.chosen;
  relaxation_.Start(family);
  (void)relaxation_.Evaluate();
  return relaxation_.Repaired().value_or(relaxation_.best());
}

std::vector<const DemandTable*> DemandsOf(const SetTable& sets) {
  std::vector<const DemandTable*> demands;
  for (const DemandTable& demand : sets.demands) demands.push_back(&demand);
  return demands;
}

namespace {

// The largest set within `allowed` that touches exactly `count` of the groups. Decides about one
// group after another, from `first` on.
std::optional<NumaMask> LargestTouching(const std::vector<NumaMask>& groups, size_t first,
                                        int count, const SetTable& sets, NumaMask kept,
                                        NumaMask allowed, SearchBudget& budget) {
  if (!budget.Step() || !sets.Contains(allowed)) return std::nullopt;
  const int touched = Touched(groups, allowed);
  if (touched < count || Touched(groups, kept) > count) return std::nullopt;
  if (touched == count) return allowed;
  for (size_t i = first; i < groups.size(); ++i) {
    if (!groups[i].Intersects(allowed) || groups[i].Intersects(kept)) continue;
    if (const auto found =
            LargestTouching(groups, i + 1, count, sets, kept, allowed - groups[i], budget)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NumaMask> MemberTouching(const DescribedHints& hints, const SetTable& sets,
                                       NumaMask kept, NumaMask allowed, SearchBudget& budget) {
  allowed = allowed & sets.within;
  if (!allowed.Contains(kept)) return std::nullopt;
  return LargestTouching(hints.groups, 0, hints.preferred_groups, sets, kept, allowed, budget);
}

}  // namespace alignd::topologymanager
