#include "core/topologymanager/demand_table.h"

#include <algorithm>
#include <functional>

#include "alignd/base/saturating_sum.h"

namespace alignd::topologymanager {

DemandTable::DemandTable(const Demand& demand) : wanted_(demand.wanted) {
  for (const Place& place : demand.places) {
    if (place.nodes.Count() > 1) {
      shared_.push_back(place);
      shared_nodes_ = shared_nodes_ | place.nodes;
    }
    if (place.nodes.Count() != 1) continue;
    uint64_t& amount = on_node_[static_cast<size_t>(*place.nodes.begin())];
    amount = SaturatingSum(amount, place.amount);
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

uint64_t DemandTable::AtMost(NumaMask set, NumaMask open, int count) const {
  uint64_t amount = AmountOf(set);
  if (amount >= wanted_ || count <= 0) return amount;
  std::array<uint64_t, NumaMask::kMaxNodes> gains;
  const int gainers = std::min(count, Gains(set, open, gains));
  for (int i = 0; i < gainers; ++i) amount = SaturatingSum(amount, gains[static_cast<size_t>(i)]);
  return amount;
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

int DemandTable::AtMostLeftOut(NumaMask set, NumaMask some) const {
  uint64_t slack = AmountOf(set) - wanted_;
  std::array<uint64_t, NumaMask::kMaxNodes> losses;
  int count = 0;
  for (const int node : some) losses[static_cast<size_t>(count++)] = OnNode(node);
  std::sort(losses.begin(), losses.begin() + count);
  for (int i = 0; i < count; ++i) {
    const uint64_t loss = losses[static_cast<size_t>(i)];
    if (loss > slack) return i;
    slack -= loss;
  }
  return count;
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
