#include "core/topologymanager/search/demand_table.h"

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

// Places that nodes share: of each, one part counts in any case, and the rest for each of its nodes
// that is chosen; that is never too little. Which parts bring the sum down most is tried out.
uint64_t DemandTable::AtMostByShares(const SetFamily& family, NumaMask beside) const {
  const NumaMask set = family.chosen | beside;
  const NumaMask open = family.Open();
  std::array<uint64_t, NumaMask::kMaxNodes> gains = {};
  for (const int node : open) gains[static_cast<size_t>(node)] = OnNode(node);
  std::vector<Place> places;
  for (const Place& place : shared_) {
    if (place.nodes.Intersects(set) || !place.nodes.Intersects(open)) continue;
    places.push_back({place.nodes & open, place.amount});
    for (const int node : places.back().nodes) gains[static_cast<size_t>(node)] += place.amount;
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
  for (const Place& place : places) {
    if (best < wanted_) break;
    const auto shift = [&](uint64_t amount) {
      in_any_case += amount;
      for (const int node : place.nodes) gains[static_cast<size_t>(node)] -= amount;
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

uint64_t DemandTable::AtMost(const SetFamily& family, NumaMask beside) const {
  const NumaMask set = family.chosen | beside;
  uint64_t amount = AmountOf(set);
  for (const SetFamily::Part& part : family.parts) {
    if (amount >= wanted_) break;
    std::array<uint64_t, NumaMask::kMaxNodes> gains;
    const int gainers = std::min(part.need, Gains(set, part.open, gains));
    for (int i = 0; i < gainers; ++i) amount = SaturatingSum(amount, gains[static_cast<size_t>(i)]);
  }
  if (amount < wanted_ || !shared_nodes_.Intersects(family.Open())) return amount;
  return AtMostByShares(family, beside);
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

NodeKinds::NodeKinds(const std::vector<const SetTable*>& lists,
                     const std::vector<NumaMask>& groups) {
  const auto are_alike = [&](int a, int b) {
    return std::ranges::all_of(lists,
                               [&](const SetTable* list) {
                                 const NumaMask shared = list->shared_nodes();
                                 return !shared.Contains(a) && !shared.Contains(b) &&
                                        list->within.Contains(a) == list->within.Contains(b) &&
                                        std::ranges::all_of(
                                            list->demands, [&](const DemandTable& demand) {
                                              return demand.OnNode(a) == demand.OnNode(b);
                                            });
                               }) &&
           std::ranges::all_of(
               groups, [&](NumaMask group) { return group.Contains(a) == group.Contains(b); });
  };
  for (int node = 0; node < NumaMask::kMaxNodes; ++node) {
    int kind = 0;
    while (kind < node && !are_alike(kind, node)) ++kind;
    kinds_[static_cast<size_t>(node)] = static_cast<uint8_t>(kind);
  }
}

void NodeKinds::AppendTo(std::vector<uint64_t>& key, NumaMask nodes) const {
  std::array<uint8_t, NumaMask::kMaxNodes> counts = {};
  for (const int node : nodes) ++counts[kinds_[static_cast<size_t>(node)]];
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i % 8 == 0) key.push_back(0);
    key.back() = key.back() << 8 | counts[i];
  }
}

void NodeKinds::AppendTo(std::vector<uint64_t>& key, const SetFamily& family) const {
  AppendTo(key, family.chosen);
  for (const SetFamily::Part& part : family.parts) {
    AppendTo(key, part.open);
    key.push_back(static_cast<uint64_t>(part.need));
  }
}

}  // namespace alignd::topologymanager
