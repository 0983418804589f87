#include "core/topologymanager/search/priced_bound.h"

#include <algorithm>
#include <cmath>

namespace alignd::topologymanager {

PricedBound::PricedBound(const std::vector<const DemandTable*>& demands,
                         const std::vector<NumaMask>& classes)
    : classes_(classes.size()), counts_(classes.size()) {
  size_t place = 0;
  for (size_t i = 0; i < classes_; ++i) {
    begin_[i] = place;
    for (const int node : classes[i]) nodes_[place++] = node;
  }
  begin_[classes_] = place;
  // Any demands make a bound.
  items_.resize(std::min(demands.size(), kMaxDemands));
  for (size_t i = 0; i < items_.size(); ++i) {
    const DemandTable& demand = *demands[i];
    const auto part_of = [&](uint64_t amount) {
      const auto wanted = static_cast<long double>(demand.wanted());
      // Larger than the quotient, also after rounding.
      const auto part = static_cast<int64_t>(
          std::ceil(static_cast<long double>(std::min(amount, demand.wanted())) *
                    static_cast<long double>(kWhole) / wanted));
      return std::min(part + 1, kWhole);
    };
    PerNode& parts = items_[i].parts;
    for (size_t at = 0; at < place; ++at) {
      const int node = nodes_[at];
      const uint64_t amount = demand.OnNode(node);
      parts[static_cast<size_t>(node)] = amount == 0 ? 0 : part_of(amount);
    }
    // A shared place counts for each of its nodes.
    for (const Place& shared : demand.shared()) {
      for (const int node : shared.nodes) {
        int64_t& part = parts[static_cast<size_t>(node)];
        part = std::min(part + part_of(shared.amount), kWhole);
      }
    }
  }
}

int64_t PricedBound::AtLeast(const Family& family, int64_t enough, int moves, int64_t& steps) {
  const int64_t aim = enough * kScale;
  int64_t best = Evaluate(family);
  ++steps;
  for (Item& item : items_) item.best_price = item.price;
  int64_t value = best;
  double factor = 1;
  for (int i = 0; i < moves && best < aim; ++i) {
    if (!Move(value, aim, factor)) break;
    value = Evaluate(family);
    ++steps;
    if (value > best) {
      best = value;
      for (Item& item : items_) item.best_price = item.price;
    } else {
      factor /= 2;
    }
  }
  bool has_moved = false;
  for (Item& item : items_) {
    has_moved = has_moved || item.price != item.best_price;
    item.price = item.best_price;
  }
  if (has_moved) Sort();
  // Rounded up: costs are whole numbers.
  return best <= 0 ? 0 : (best + kScale - 1) / kScale;
}

bool PricedBound::Move(int64_t value, int64_t aim, double factor) {
  double squares = 0;
  for (const Item& item : items_) {
    // A price of nothing does not fall.
    if (item.lack < 0 && item.price == 0) continue;
    squares += static_cast<double>(item.lack) * static_cast<double>(item.lack);
  }
  if (squares <= 0) return false;
  const double step = factor * static_cast<double>(aim - value) / squares;
  for (Item& item : items_) {
    const double price = static_cast<double>(item.price) + step * static_cast<double>(item.lack);
    item.price = static_cast<int64_t>(std::clamp(price, 0.0, static_cast<double>(kMaxPrice)));
  }
  Sort();
  return true;
}

void PricedBound::Sort() {
  const size_t end = begin_[classes_];
  for (size_t at = 0; at < end; ++at) worth_[static_cast<size_t>(nodes_[at])] = 0;
  for (const Item& item : items_) {
    if (item.price == 0) continue;
    for (size_t at = 0; at < end; ++at) {
      const auto node = static_cast<size_t>(nodes_[at]);
      worth_[node] += item.price * item.parts[node];
    }
  }
  for (size_t i = 0; i < classes_; ++i) {
    std::sort(nodes_.begin() + begin_[i], nodes_.begin() + begin_[i + 1], [this](int a, int b) {
      return worth_[static_cast<size_t>(a)] > worth_[static_cast<size_t>(b)];
    });
    int64_t* worths = &worths_[begin_[i] + i];
    for (size_t at = begin_[i]; at < begin_[i + 1]; ++at, ++worths) {
      worths[1] = worths[0] + worth_[static_cast<size_t>(nodes_[at])];
    }
  }
}

int64_t PricedBound::Evaluate(const Family& family) {
  int64_t value = family.cost * kScale;
  for (Item& item : items_) {
    value += item.price * kWhole;
    item.lack = kWhole;
  }
  const auto take = [&](size_t i, int count) {
    for (size_t at = begin_[i]; at < begin_[i] + static_cast<size_t>(count); ++at) {
      const auto node = static_cast<size_t>(nodes_[at]);
      for (Item& item : items_) item.lack -= item.parts[node];
    }
  };
  for (size_t i = 0; i < family.first; ++i) {
    value -= worths_[begin_[i] + i + static_cast<size_t>(family.taken[i])];
    take(i, family.taken[i]);
  }
  // By number of nodes of the classes so far.
  constexpr int64_t kNone = kImpossible * kScale;
  std::array<int64_t, NumaMask::kMaxNodes + 1> cheapest;
  const auto need = static_cast<size_t>(family.need);
  std::fill_n(cheapest.begin(), need + 1, kNone);
  cheapest[0] = 0;
  size_t so_far = 0;
  for (size_t i = family.first; i < classes_; ++i) {
    const int64_t* worths = &worths_[begin_[i] + i];
    const auto fewest = static_cast<size_t>(family.fewest[i]);
    const auto most = std::min(need, static_cast<size_t>(family.most[i]));
    so_far = std::min(need, so_far + most);
    // In place, from the largest number down.
    for (size_t sum = so_far + 1; sum-- > 0;) {
      int64_t least = kNone;
      uint8_t of_class = 0;
      for (size_t count = fewest; count <= std::min(most, sum); ++count) {
        const int64_t cost =
            cheapest[sum - count] + family.costs[i][count] * kScale - worths[count];
        if (cost >= least) continue;
        least = cost;
        of_class = static_cast<uint8_t>(count);
      }
      cheapest[sum] = least;
      counts_[i][sum] = of_class;
    }
  }
  // No price makes up for that.
  if (cheapest[need] >= kNone / 2) return kNone;
  for (size_t i = classes_, sum = need; i-- > family.first;) {
    take(i, counts_[i][sum]);
    sum -= counts_[i][sum];
  }
  return value + cheapest[need];
}

}  // namespace alignd::topologymanager
