#include "core/topologymanager/sets/relaxation.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace alignd::topologymanager {
Relaxation::Relaxation(const std::vector<const DemandTable*>& demands)
    : items_(demands.size()), surplus_(demands.size()), tried_(demands.size()) {
  for (size_t i = 0; i < demands.size(); ++i) {
    Item& item = items_[i];
    item.demand = demands[i];
    item.wanted = static_cast<double>(demands[i]->wanted());
    for (size_t node = 0; node < item.shares.size(); ++node) {
      item.shares[node] =
          static_cast<double>(demands[i]->OnNode(static_cast<int>(node))) / item.wanted;
    }
    for (const Place& place : demands[i]->shared()) {
      shared_.push_back({.item = i,
                         .nodes = place.nodes,
                         .share = static_cast<double>(place.amount) / item.wanted,
                         .in_any_case = 0,
                         .open = {}});
    }
  }
}

void Relaxation::Start(const SetFamily& family) {
  family_ = family;
  open_ = family.Open();
  usual_ = {};
  evaluations_ = 0;
  double weights = 0;
  for (Item& item : items_) {
    const uint64_t amount = item.demand->AmountOf(family.chosen);
    const uint64_t wanted = item.demand->wanted();
    item.missing = amount >= wanted ? 0 : static_cast<double>(wanted - amount) / item.wanted;
    if (item.missing > 0) weights += item.weight;
  }
  // Weights of demands that were satisfied before may have become too small.
  if (weights < kRounding) {
    for (Item& item : items_) item.weight = 1;
  }
  for (Shared& place : shared_) {
    const bool counts = items_[place.item].missing > 0 && !place.nodes.Intersects(family.chosen);
    place.open = counts ? place.nodes & open_ : NumaMask();
  }
}

bool Relaxation::Evaluate() {
  PerNode scores;
  for (const int node : open_) scores[static_cast<size_t>(node)] = 0;
  double missing = 0;
  for (const Item& item : items_) {
    if (item.missing <= 0 || item.weight <= 0) continue;
    missing += item.weight * item.missing;
    for (const int node : open_) {
      scores[static_cast<size_t>(node)] += item.weight * item.shares[static_cast<size_t>(node)];
    }
  }
  double value = 0;
  for (const Shared& place : shared_) {
    const double worth = items_[place.item].weight * place.share;
    if (place.open.empty() || worth <= 0) continue;
    value += worth * place.in_any_case;
    for (const int node : place.open) {
      scores[static_cast<size_t>(node)] += worth * (1 - place.in_any_case);
    }
  }
  best_ = family_.chosen;
  std::array<std::pair<double, int>, NumaMask::kMaxNodes> ranked;
  for (const SetFamily::Part& part : family_.parts) {
    auto* end = ranked.begin();
    for (const int node : part.open) *end++ = {-scores[static_cast<size_t>(node)], node};
    std::nth_element(ranked.begin(), ranked.begin() + (part.need - 1), end);
    for (int i = 0; i < part.need; ++i) {
      const auto [score, node] = ranked[static_cast<size_t>(i)];
      value -= score;
      best_.Add(node);
    }
  }
  for (Item& item : items_) {
    if (item.missing <= 0) continue;
    item.surplus = -item.missing;
    for (const int node : best_& open_) item.surplus += item.shares[static_cast<size_t>(node)];
    item.gradient = item.surplus;
  }
  for (const Shared& place : shared_) {
    if (place.open.empty()) continue;
    Item& item = items_[place.item];
    const int nodes = (place.open & best_).Count();
    if (nodes > 0) item.surplus += place.share;
    item.gradient += place.share * (place.in_any_case + (1 - place.in_any_case) * nodes);
  }
  // Later sets, under better weights, count more.
  constexpr double kFading = 0.75;
  evaluations_ = kFading * evaluations_ + 1;
  for (const int node : open_) {
    double& usual = usual_[static_cast<size_t>(node)];
    usual = kFading * usual + (best_.Contains(node) ? 1.0 : 0.0);
  }
  value_ = value - missing;
  return value_ >= -kRounding * (value + missing);
}

bool Relaxation::IsBestEnough() const {
  return std::ranges::all_of(
      items_, [](const Item& item) { return item.missing <= 0 || item.surplus >= -kRounding; });
}

void Relaxation::Improve() {
  double squares = 0;
  double missing = 0;
  for (const Item& item : items_) {
    if (item.missing <= 0) continue;
    squares += item.gradient * item.gradient;
    missing += item.weight * item.missing;
  }
  if (squares > 0) {
    // The aim is a value a little below 0, which is the proof.
    constexpr double kAim = 0.01;
    const double step = (std::max(value_, 0.0) + kAim * missing) / squares;
    double sum = 0;
    double most = 0;
    for (Item& item : items_) {
      if (item.missing <= 0) continue;
      item.weight = std::max(0.0, item.weight - step * item.gradient);
      sum += item.weight;
      most = std::max(most, item.missing);
    }
    for (Item& item : items_) {
      if (sum > kRounding) {
        item.weight = item.missing > 0 ? item.weight / sum : item.weight;
      } else {
        item.weight = 1;
      }
    }
  }
  for (Shared& place : shared_) {
    if (place.open.empty()) continue;
    constexpr double kMove = 0.25;
    const int nodes = (place.open & best_).Count();
    if (nodes == 0) place.in_any_case = std::max(0.0, place.in_any_case - kMove);
    if (nodes > 1) place.in_any_case = std::min(1.0, place.in_any_case + kMove);
  }
}

void Relaxation::CopyWeights(std::vector<double>& weights) const {
  double sum = 0;
  for (const Item& item : items_) sum += item.missing > 0 ? item.weight : 0;
  weights.clear();
  for (const Item& item : items_) weights.push_back(item.missing > 0 ? item.weight / sum : 0);
}

double Relaxation::Violation(const std::vector<double>& surplus) const {
  double violation = 0;
  for (size_t i = 0; i < items_.size(); ++i) {
    if (items_[i].missing > 0 && surplus[i] < -kRounding) violation -= surplus[i];
  }
  return violation;
}

bool Relaxation::Exchange(NumaMask& set, double& violation) {
  int best_out = -1;
  int best_in = -1;
  double least = violation;
  for (const SetFamily::Part& part : family_.parts) {
    for (const int out : part.open& set) {
      for (const int in : part.open - set) {
        double after = 0;
        for (size_t i = 0; i < items_.size() && after < least; ++i) {
          const Item& item = items_[i];
          if (item.missing <= 0) continue;
          const double surplus = surplus_[i] + item.shares[static_cast<size_t>(in)] -
                                 item.shares[static_cast<size_t>(out)];
          if (surplus < -kRounding) after -= surplus;
        }
        if (after >= least) continue;
        least = after;
        best_out = out;
        best_in = in;
      }
    }
  }
  if (best_out < 0) return false;
  set = (set - NumaMask::Of(best_out)) | NumaMask::Of(best_in);
  for (size_t i = 0; i < items_.size(); ++i) {
    surplus_[i] += items_[i].shares[static_cast<size_t>(best_in)] -
                   items_[i].shares[static_cast<size_t>(best_out)];
  }
  violation = least;
  return true;
}

std::optional<NumaMask> Relaxation::Repaired() {
  NumaMask set = best_;
  for (size_t i = 0; i < items_.size(); ++i) surplus_[i] = items_[i].surplus;
  double violation = Violation(surplus_);
  constexpr int kMaxExchanges = 6;
  for (int i = 0; i < kMaxExchanges && violation > 0; ++i) {
    if (!Exchange(set, violation)) return std::nullopt;
  }
  if (violation > 0) return std::nullopt;
  return set;
}

int Relaxation::MostDisputed() const {
  int disputed = -1;
  double least = 2;
  for (const int node : open_) {
    const double distance = std::abs(usual_[static_cast<size_t>(node)] / evaluations_ - 0.5);
    if (distance >= least) continue;
    least = distance;
    disputed = node;
  }
  return disputed;
}

}  // namespace alignd::topologymanager
