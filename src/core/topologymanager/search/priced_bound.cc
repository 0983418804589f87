#include "core/topologymanager/search/priced_bound.h"

#include <algorithm>

namespace alignd::topologymanager {

PricedBound::PricedBound(const NodeParts& parts, const std::vector<NumaMask>& classes, int size)
    : items_(parts.demands()),
      classes_(classes.size()),
      added_(classes.size()),
      rows_(classes.size() + 1),
      size_(static_cast<size_t>(size)),
      by_count_(classes.size()) {
  for (Row& row : rows_) row.fill(kNone);
  size_t place = 0;
  for (size_t i = 0; i < classes_; ++i) {
    begin_[i] = place;
    for (const int node : classes[i]) nodes_[place++] = node;
  }
  begin_[classes_] = place;
  for (size_t i = 0; i < items_.size(); ++i) {
    for (size_t at = 0; at < place; ++at) {
      items_[i].own[static_cast<size_t>(nodes_[at])] = parts.Of(i, nodes_[at]);
    }
  }
  for (const NodeParts::Shared& shared : parts.shared()) {
    shared_.push_back({.item = shared.demand, .nodes = shared.nodes, .part = shared.part});
  }
  ShareOut();
}

void PricedBound::ShareOut() {
  for (Item& item : items_) {
    item.parts = item.own;
    item.wanted = NodeParts::kWhole;
  }
  for (const Shared& shared : shared_) {
    Item& item = items_[shared.item];
    const int64_t quarter = shared.part / NodeParts::kQuarters;
    item.wanted -= quarter * shared.in_any_case;
    const int64_t for_each = quarter * (NodeParts::kQuarters - shared.in_any_case);
    for (const int node : shared.nodes) {
      int64_t& part = item.parts[static_cast<size_t>(node)];
      part = std::min(part + for_each, NodeParts::kWhole);
    }
  }
}

int64_t PricedBound::AtLeast(const Family& family, int64_t enough, int moves, int64_t& bounds) {
  const int64_t aim = enough * kScale;
  int64_t best = Evaluate(family);
  ++bounds;
  KeepBest();
  int64_t value = best;
  double factor = 1;
  for (int i = 0; i < moves && best < aim; ++i) {
    if (!Move(value, aim, factor)) break;
    value = Evaluate(family);
    ++bounds;
    if (value > best) {
      best = value;
      KeepBest();
    } else {
      factor /= 2;
    }
  }
  bool has_moved = false;
  for (Item& item : items_) {
    has_moved = has_moved || item.price != item.best_price;
    item.price = item.best_price;
  }
  bool has_shared_out = false;
  for (Shared& shared : shared_) {
    has_shared_out = has_shared_out || shared.in_any_case != shared.best_in_any_case;
    shared.in_any_case = shared.best_in_any_case;
  }
  if (has_shared_out) ShareOut();
  if (has_moved || has_shared_out) Sort();
  return InCosts(best);
}

void PricedBound::KeepBest() {
  for (Item& item : items_) item.best_price = item.price;
  for (Shared& shared : shared_) shared.best_in_any_case = shared.in_any_case;
}

bool PricedBound::Move(int64_t value, int64_t aim, double factor) {
  double squares = 0;
  for (const Item& item : items_) {
    // A price of nothing does not fall.
    if (item.lack < 0 && item.price == 0) continue;
    squares += static_cast<double>(item.lack) * static_cast<double>(item.lack);
  }
  bool shared_out = false;
  for (Shared& shared : shared_) {
    if (items_[shared.item].price == 0) continue;
    const int nodes = (cheapest_ & shared.nodes).Count();
    if (nodes == 0 && shared.in_any_case > 0) {
      --shared.in_any_case;
      shared_out = true;
    } else if (nodes > 1 && shared.in_any_case < NodeParts::kQuarters) {
      ++shared.in_any_case;
      shared_out = true;
    }
  }
  if (shared_out) ShareOut();
  if (squares <= 0) {
    if (shared_out) Sort();
    return shared_out;
  }
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

void PricedBound::AddClass(const double* before, double* after, const double* added, size_t fewest,
                           size_t most) const {
  for (size_t sum = 0; sum <= size_; sum += kWidth) {
    std::array<double, kWidth> least;
    least.fill(kNone);
    for (size_t count = fewest; count <= most; ++count) {
      const double* const from = before + sum - count;
      for (size_t j = 0; j < kWidth; ++j) {
        const double cost = from[j] + added[count];
        least[j] = cost < least[j] ? cost : least[j];
      }
    }
    std::copy_n(least.begin(), kWidth, after + sum);
  }
}

int64_t PricedBound::Evaluate(const Family& family) {
  fixed_ = 0;
  for (Item& item : items_) {
    fixed_ += item.price * item.wanted;
    item.lack = item.wanted;
  }
  double* const none = RowOf(0);
  std::fill_n(none, RoundedUp(size_ + 1), kNone);
  none[0] = 0;
  for (size_t i = 0; i < classes_; ++i) {
    const int64_t* worths = &worths_[begin_[i] + i];
    const size_t fewest = family.fewest[i];
    const size_t most = family.most[i];
    double* const added = added_[i].data();
    for (size_t count = fewest; count <= most; ++count) {
      added[count] = static_cast<double>(family.costs[i][count] * kScale - worths[count]);
    }
    AddClass(RowOf(i), RowOf(i + 1), added, fewest, most);
  }
  const double cheapest = RowOf(classes_)[size_];
  // No price makes up for that.
  if (cheapest >= kNone / 2) return kImpossible * kScale;
  cheapest_ = {};
  for (size_t i = classes_, sum = size_; i-- > 0;) {
    const double total = RowOf(i + 1)[sum];
    size_t count = family.fewest[i];
    while (RowOf(i)[sum - count] + added_[i][count] != total) ++count;
    for (size_t at = begin_[i]; at < begin_[i] + count; ++at) {
      const auto node = static_cast<size_t>(nodes_[at]);
      cheapest_.Add(nodes_[at]);
      for (Item& item : items_) item.lack -= item.parts[node];
    }
    sum -= count;
  }
  return fixed_ + static_cast<int64_t>(cheapest);
}

void PricedBound::FindByCount(const Family& family) {
  (void)Evaluate(family);
  // By number of nodes of the classes from one on: their least cost.
  Row after;
  after.fill(kNone);
  double* later = after.data() + NumaMask::kMaxNodes;
  later[0] = 0;
  Row next;
  next.fill(kNone);
  double* with = next.data() + NumaMask::kMaxNodes;
  for (size_t i = classes_; i-- > 0;) {
    const double* const before = RowOf(i);
    for (size_t count = family.fewest[i]; count <= family.most[i]; ++count) {
      double least = kNone;
      for (size_t sum = 0; sum + count <= size_; ++sum) {
        least = std::min(least, before[sum] + later[size_ - count - sum]);
      }
      by_count_[i][count] = least + added_[i][count];
    }
    AddClass(later, with, added_[i].data(), family.fewest[i], family.most[i]);
    std::swap(later, with);
  }
}

}  // namespace alignd::topologymanager
