#include "alignd/topologymanager/node_sets.h"

#include <algorithm>

#include "alignd/base/saturating_sum.h"
#include "core/topologymanager/sets/member_search.h"

namespace alignd::topologymanager {
namespace {

bool IsSatisfied(const Demand& demand, NumaMask set) {
  uint64_t amount = 0;
  for (const Place& place : demand.places) {
    if (place.nodes.Intersects(set)) amount = SaturatingSum(amount, place.amount);
  }
  return amount >= demand.wanted;
}

// A lower bound of the nodes that a member has besides those of `containing`.
int LeastNodesMore(const SetTable& table, NumaMask containing) {
  int least = containing.empty() ? 1 : 0;
  for (const DemandTable& demand : table.demands) {
    least = std::max(least, demand.AtLeastNodes(containing, table.within - containing));
  }
  return least;
}

}  // namespace

bool NodeSets::Contains(NumaMask set) const {
  return !set.empty() && within.Contains(set) &&
         std::ranges::all_of(demands,
                             [&](const Demand& demand) { return IsSatisfied(demand, set); });
}

namespace {

// The narrowest members that contain all of `containing`, by sizes in ascending order. Of these the
// lowest, or only some member: any one is enough to know the size.
std::optional<NumaMask> NarrowestMember(const SetTable& table, NumaMask containing, bool lowest,
                                        SearchBudget& budget) {
  const NumaMask open = table.within - containing;
  MemberSearch search(DemandsOf(table));
  for (int more = LeastNodesMore(table, containing); more < open.Count(); ++more) {
    const SetFamily family{containing, {{open, more}}};
    if (!budget.IsUsedUp()) {
      const auto found = lowest ? search.Lowest(family, budget) : search.Any(family, budget);
      if (found) return found;
      if (!budget.IsUsedUp()) continue;
    }
    const NumaMask guess = search.Guess(family);
    if (search.Accepts(guess)) return guess;
  }
  return table.within;
}

}  // namespace

std::optional<NumaMask> NarrowestSet(const NodeSets& sets, NumaMask containing,
                                     SearchBudget& budget) {
  if (!sets.within.Contains(containing) || !sets.Contains(sets.within)) return std::nullopt;
  return NarrowestMember(SetTable(sets), containing, /*lowest=*/true, budget);
}

std::optional<Narrowest> NarrowestSet(const NodeSets& sets, NumaMask containing) {
  SearchBudget budget;
  const std::optional<NumaMask> set = NarrowestSet(sets, containing, budget);
  if (!set) return std::nullopt;
  return Narrowest{*set, !budget.IsUsedUp()};
}

std::optional<int> FewestNodes(const NodeSets& sets, SearchBudget& budget) {
  if (!sets.Contains(sets.within)) return std::nullopt;
  const SetTable table(sets);
  if (table.demands.size() <= 1 && table.shared_nodes().empty()) return LeastNodesMore(table, {});
  return NarrowestMember(table, {}, /*lowest=*/false, budget)->Count();
}

std::optional<Fewest> FewestNodes(const NodeSets& sets) {
  SearchBudget budget;
  const std::optional<int> nodes = FewestNodes(sets, budget);
  if (!nodes) return std::nullopt;
  return Fewest{*nodes, !budget.IsUsedUp()};
}

}  // namespace alignd::topologymanager
