#include "core/topologymanager/sets/member_search.h"

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <utility>

namespace alignd::topologymanager {
namespace {

int Touched(const std::vector<NumaMask>& groups, NumaMask set) {
  return static_cast<int>(
      std::ranges::count_if(groups, [&](NumaMask group) { return group.Intersects(set); }));
}

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

}  // namespace

MemberProblem::MemberProblem(std::vector<const DemandTable*> demands,
                             std::vector<const DescribedHints*> preferred_by)
    : demands_(std::move(demands)), preferred_by_(std::move(preferred_by)) {}

bool MemberProblem::Accepts(NumaMask set) {
  return std::ranges::all_of(demands_, [&](const auto* d) { return d->IsSatisfiedBy(set); }) &&
         std::ranges::all_of(preferred_by_, [&](const auto* h) { return h->IsPreferred(set); });
}

bool MemberProblem::IsPossible(const SetFamily& family) {
  SetFamily usable = family;
  const NumaMask open = family.Open();
  for (const DescribedHints* hints : preferred_by_) {
    const auto of_hints = UsableNodes(*hints, family.chosen, open, family.Need());
    if (!of_hints) return false;
    for (SetFamily::Part& part : usable.parts) part.open = part.open & *of_hints;
  }
  for (const SetFamily::Part& part : usable.parts) {
    if (part.open.Count() < part.need) return false;
  }
  for (const DemandTable* demand : demands_) {
    if (demand->AtMost(usable) < demand->wanted()) return false;
  }
  return CanSatisfyTogether(usable) &&
         (impossible_.empty() || !impossible_.contains(KeyOf(family)));
}

double MemberProblem::MissingShares(const SetFamily& family, Shares& shares) const {
  const NumaMask set = family.chosen;
  const NumaMask open = family.Open();
  double missing = 0;
  shares = {};
  for (const DemandTable* demand : demands_) {
    const uint64_t amount = demand->AmountOf(set);
    if (amount >= demand->wanted()) continue;
    const auto wanted = static_cast<double>(demand->wanted());
    missing += static_cast<double>(demand->wanted() - amount) / wanted;
    for (const int node : open) {
      const uint64_t gain = demand->GainOf(node, set);
      shares[static_cast<size_t>(node)] += static_cast<double>(gain) / wanted;
    }
  }
  return missing;
}

bool MemberProblem::CanSatisfyTogether(const SetFamily& family) const {
  if (demands_.size() < 2) return true;
  Shares shares;
  const double missing = MissingShares(family, shares);
  double most = 0;
  for (const SetFamily::Part& part : family.parts) {
    Shares of_part;
    int count = 0;
    for (const int node : part.open) {
      of_part[static_cast<size_t>(count++)] = shares[static_cast<size_t>(node)];
    }
    std::sort(of_part.begin(), of_part.begin() + count, std::greater<>());
    for (int i = 0; i < part.need; ++i) most += of_part[static_cast<size_t>(i)];
  }
  constexpr double kRounding = 1e-6;  // far more than 64 sums of quotients can be off
  return most * (1 + kRounding) + kRounding >= missing;
}

NumaMask MemberProblem::Guess(const SetFamily& family) const {
  Shares shares;
  (void)MissingShares(family, shares);
  NumaMask guess = family.chosen;
  for (const SetFamily::Part& part : family.parts) {
    std::vector<int> nodes(part.open.begin(), part.open.end());
    std::ranges::stable_sort(nodes, std::greater<>(),
                             [&](int node) { return shares[static_cast<size_t>(node)]; });
    for (int i = 0; i < part.need; ++i) guess.Add(nodes[static_cast<size_t>(i)]);
  }
  return guess;
}

void MemberProblem::NoteImpossible(const SetFamily& family) { impossible_.insert(KeyOf(family)); }

std::vector<uint64_t> MemberProblem::KeyOf(const SetFamily& family) const {
  const NumaMask set = family.chosen;
  std::vector<uint64_t> key;
  NumaMask open;
  for (const SetFamily::Part& part : family.parts) {
    key.push_back(part.open.bits());
    key.push_back(static_cast<uint64_t>(part.need));
    open = open | part.open;
  }
  for (const DemandTable* demand : demands_) {
    key.push_back(std::min(demand->AmountOf(set), demand->wanted()));
  }
  // Of the shared places that open nodes have: whether a chosen node has them already.
  std::vector<bool> bits;
  for (const DemandTable* demand : demands_) {
    for (const Place& place : demand->shared()) {
      if (place.nodes.Intersects(open)) bits.push_back(place.nodes.Intersects(set));
    }
  }
  // Whether a set is preferred depends on its number of nodes and on its groups.
  if (!preferred_by_.empty()) key.push_back(static_cast<uint64_t>(family.chosen.Count()));
  for (const DescribedHints* hints : preferred_by_) {
    for (const NumaMask group : hints->groups) bits.push_back(group.Intersects(family.chosen));
  }
  for (size_t i = 0; i < bits.size(); ++i) {
    if (i % 64 == 0) key.push_back(0);
    if (bits[i]) key.back() |= uint64_t{1} << i % 64;
  }
  return key;
}

std::vector<const DemandTable*> DemandsOf(const SetTable& sets) {
  std::vector<const DemandTable*> demands;
  for (const DemandTable& demand : sets.demands) demands.push_back(&demand);
  return demands;
}

namespace {

std::optional<NumaMask> MemberOfSize(const SetTable& sets, NumaMask kept, NumaMask allowed,
                                     int size, SearchBudget& budget) {
  SetFamily family{kept, {{allowed - kept, size - kept.Count()}}};
  if (!family.Settle()) return std::nullopt;
  MemberProblem problem(DemandsOf(sets));
  if (!budget.Step() || !problem.IsPossible(family)) return std::nullopt;
  const NumaMask guess = problem.Guess(family);
  if (problem.Accepts(guess)) return guess;
  return LowestSubset(std::move(family), problem, budget);
}

// The largest set within `allowed` that touches exactly `count` of the groups. Decides about one
// group after another, from `first` on.
std::optional<NumaMask> MemberTouching(const std::vector<NumaMask>& groups, size_t first, int count,
                                       const SetTable& sets, NumaMask kept, NumaMask allowed,
                                       SearchBudget& budget) {
  if (!budget.Step() || !sets.Contains(allowed)) return std::nullopt;
  const int touched = Touched(groups, allowed);
  if (touched < count || Touched(groups, kept) > count) return std::nullopt;
  if (touched == count) return allowed;
  for (size_t i = first; i < groups.size(); ++i) {
    if (!groups[i].Intersects(allowed) || groups[i].Intersects(kept)) continue;
    if (const auto found =
            MemberTouching(groups, i + 1, count, sets, kept, allowed - groups[i], budget)) {
      return found;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<NumaMask> PreferredMember(const DescribedHints& hints, const SetTable& sets,
                                        NumaMask kept, NumaMask allowed, SearchBudget& budget) {
  allowed = allowed & sets.within;
  if (!allowed.Contains(kept)) return std::nullopt;
  if (const auto found = MemberOfSize(sets, kept, allowed, hints.preferred_nodes, budget)) {
    return found;
  }
  if (hints.groups.empty()) return std::nullopt;
  return MemberTouching(hints.groups, 0, hints.preferred_groups, sets, kept, allowed, budget);
}

}  // namespace alignd::topologymanager
