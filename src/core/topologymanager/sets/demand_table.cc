#include "core/topologymanager/sets/demand_table.h"

#include <algorithm>
#include <functional>

#include "alignd/base/saturating_sum.h"

namespace alignd::topologymanager {

DemandTable::DemandTable(const Demand& demand) : wanted_(demand.wanted) {
  for (const Place& place : demand.places) {
    if (place.nodes.Count() > 1) {
      shared_.push_back({place.nodes, std::min(place.amount, wanted_)});
      shared_nodes_ = shared_nodes_ | place.nodes;
    }
    if (place.nodes.Count() != 1) continue;
    uint64_t& amount = on_node_[static_cast<size_t>(*place.nodes.begin())];
    amount = std::min(SaturatingSum(amount, place.amount), wanted_);
  }
}

uint64_t DemandTable::AmountOf(NumaMask set) const {
  uint64_t amount = 0;
  for (const int node : set) amount = SaturatingSum(amount, OnNode(node));
  for (const Place& place : shared_) {
    if (set.Intersects(place.nodes)) amount = SaturatingSum(amount, place.amount);
  }
  return amount;
}

uint64_t DemandTable::GainOf(int node, NumaMask set) const {
  uint64_t gain = OnNode(node);
  for (const Place& place : shared_) {
    if (place.nodes.Contains(node) && !set.Intersects(place.nodes)) {
      gain = SaturatingSum(gain, place.amount);
    }
  }
  return gain;
}

int DemandTable::Gains(NumaMask set, NumaMask open,
                       std::array<uint64_t, NumaMask::kMaxNodes>& gains) const {
  int count = 0;
  for (const int node : open) {
    gains[static_cast<size_t>(count++)] = GainOf(node, set);
  }
  std::sort(gains.begin(), gains.begin() + count, std::greater<>());
  return count;
}

// A shared place may be added once for each of its nodes that is chosen, or once in any case: both
// are upper bounds. For each place in turn, the choice that makes the bound smaller is kept.
uint64_t DemandTable::AtMostByShares(const SetFamily& family) const {
  const NumaMask set = family.chosen;
  const NumaMask open = family.Open();
  std::array<uint64_t, NumaMask::kMaxNodes> gains = {};
  for (const int node : open) gains[static_cast<size_t>(node)] = OnNode(node);
  // The nodes for which a place counts.
  const auto open_nodes = [&](const Place& place) {
    return place.nodes.Intersects(set) ? NumaMask() : place.nodes & open;
  };
  for (const Place& place : shared_) {
    for (const int node : open_nodes(place)) gains[static_cast<size_t>(node)] += place.amount;
  }
  uint64_t in_any_case = AmountOf(set);
  const auto bound = [&] {
    uint64_t amount = in_any_case;
    for (const SetFamily::Part& part : family.parts) {
      std::array<uint64_t, NumaMask::kMaxNodes> of_part;
      int count = 0;
      for (const int node : part.open)
        of_part[static_cast<size_t>(count++)] = gains[static_cast<size_t>(node)];
      std::nth_element(of_part.begin(), of_part.begin() + part.need - 1, of_part.begin() + count,
                       std::greater<>());
      for (int i = 0; i < part.need; ++i) amount += of_part[static_cast<size_t>(i)];
    }
    return amount;
  };
  uint64_t best = bound();
  for (const Place& place : shared_) {
    if (best < wanted_) break;
    const NumaMask nodes = open_nodes(place);
    if (nodes.empty()) continue;
    const auto shift = [&](uint64_t amount) {
      in_any_case += amount;
      for (const int node : nodes) gains[static_cast<size_t>(node)] -= amount;
    };
    shift(place.amount);
    const uint64_t shifted = bound();
    if (shifted < best)
      best = shifted;
    else
      shift(0 - place.amount);
  }
  return best;
}

uint64_t DemandTable::AtMost(const SetFamily& family) const {
  const NumaMask set = family.chosen;
  uint64_t amount = AmountOf(set);
  for (const SetFamily::Part& part : family.parts) {
    if (amount >= wanted_) break;
    std::array<uint64_t, NumaMask::kMaxNodes> gains;
    const int gainers = std::min(part.need, Gains(set, part.open, gains));
    for (int i = 0; i < gainers; ++i) amount = SaturatingSum(amount, gains[static_cast<size_t>(i)]);
  }
  if (amount < wanted_ || !shared_nodes_.Intersects(family.Open())) return amount;
  return AtMostByShares(family);
}

int DemandTable::AtLeastNodes(NumaMask set, NumaMask open) const {
  uint64_t amount = AmountOf(set);
  if (amount >= wanted_) return 0;
  std::array<uint64_t, NumaMask::kMaxNodes> gains;
  const int gainers = Gains(set, open, gains);
  for (int i = 0; i < gainers; ++i) {
    amount = SaturatingSum(amount, gains[static_cast<size_t>(i)]);
    if (amount >= wanted_) return i + 1;
  }
  return -1;
}

SetTable::SetTable(const NodeSets& sets) : within(sets.within) {
  demands.reserve(sets.demands.size());
  for (const Demand& demand : sets.demands) {
    if (demand.wanted > 0) demands.emplace_back(demand);
  }
}

bool SetTable::Contains(NumaMask set) const {
  return !set.empty() && within.Contains(set) &&
         std::ranges::all_of(demands,
                             [&](const auto& demand) { return demand.IsSatisfiedBy(set); });
}

NumaMask SetTable::shared_nodes() const {
  NumaMask nodes;
  for (const DemandTable& demand : demands) nodes = nodes | demand.shared_nodes();
  return nodes;
}

}  // namespace alignd::topologymanager
