#include "core/topologymanager/member_search.h"

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

// Of the nodes `open` those that a preferred set can have that has all of `chosen` and `need` of
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

MemberProblem::MemberProblem(std::vector<const DemandTable*> demands, NumaMask beside,
                             std::vector<const DescribedHints*> preferred_by)
    : demands_(std::move(demands)), beside_(beside), preferred_by_(std::move(preferred_by)) {
  for (const DemandTable* demand : demands_) {
    distinct_nodes_ = distinct_nodes_ | demand->shared_nodes();
  }
}

bool MemberProblem::Accepts(NumaMask set) {
  return std::ranges::all_of(demands_,
                             [&](const auto* d) { return d->IsSatisfiedBy(set | beside_); }) &&
         std::ranges::all_of(preferred_by_, [&](const auto* h) { return h->IsPreferred(set); });
}

bool MemberProblem::IsPossible(NumaMask chosen, NumaMask open, int need) {
  NumaMask usable = open;
  for (const DescribedHints* hints : preferred_by_) {
    const auto of_hints = UsableNodes(*hints, chosen, open, need);
    if (!of_hints) return false;
    usable = usable & *of_hints;
  }
  if (usable.Count() < need) return false;
  for (const DemandTable* demand : demands_) {
    if (demand->AtMost(chosen | beside_, usable, need) < demand->wanted()) return false;
  }
  return CanSatisfyTogether(chosen, usable, need) &&
         (impossible_.empty() || !impossible_.contains(KeyOf(chosen, open, need)));
}

bool MemberProblem::CanSatisfyTogether(NumaMask chosen, NumaMask open, int need) const {
  if (demands_.size() < 2) return true;
  double missing = 0;
  std::array<double, NumaMask::kMaxNodes> shares = {};
  for (const DemandTable* demand : demands_) {
    const uint64_t amount = demand->AmountOf(chosen | beside_);
    if (amount >= demand->wanted()) continue;
    const auto wanted = static_cast<double>(demand->wanted());
    missing += static_cast<double>(demand->wanted() - amount) / wanted;
    for (const int node : open) {
      const uint64_t gain = demand->GainOf(node, chosen | beside_);
      shares[static_cast<size_t>(node)] += static_cast<double>(gain) / wanted;
    }
  }
  std::sort(shares.begin(), shares.end(), std::greater<>());
  double most = 0;
  for (int i = 0; i < need; ++i) most += shares[static_cast<size_t>(i)];
  constexpr double kRounding = 1e-6;  // far more than 64 sums of quotients can be off
  return most * (1 + kRounding) + kRounding >= missing;
}

void MemberProblem::NoteImpossible(NumaMask chosen, NumaMask open, int need) {
  impossible_.insert(KeyOf(chosen, open, need));
}

std::vector<uint64_t> MemberProblem::KeyOf(NumaMask chosen, NumaMask open, int need) const {
  std::vector<uint64_t> key = {open.bits(), static_cast<uint64_t>(need),
                               (chosen & distinct_nodes_).bits()};
  for (const DemandTable* demand : demands_) {
    key.push_back(std::min(demand->AmountOf(chosen | beside_), demand->wanted()));
  }
  // Preference counts nodes and groups.
  if (!preferred_by_.empty()) key.push_back(static_cast<uint64_t>(chosen.Count()));
  for (const DescribedHints* hints : preferred_by_) {
    for (size_t i = 0; i < hints->groups.size(); ++i) {
      if (i % 64 == 0) key.push_back(0);
      if (hints->groups[i].Intersects(chosen)) key.back() |= uint64_t{1} << i % 64;
    }
  }
  return key;
}

std::vector<const DemandTable*> DemandsOf(const SetTable& sets) {
  std::vector<const DemandTable*> demands;
  for (const DemandTable& demand : sets.demands) demands.push_back(&demand);
  return demands;
}

}  // namespace alignd::topologymanager
