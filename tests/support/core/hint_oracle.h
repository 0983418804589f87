// The merge of hints as the kubelet does it, slow and obvious, without code of the real one; and
// hints as the kubelet has them, all listed.
#pragma once

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"

namespace alignd::topologymanager {

using ListsByResource = std::map<std::string, std::optional<HintList>>;

inline std::vector<HintList> AllOf(const std::vector<Hints>& lists) {
  std::vector<HintList> all;
  for (const Hints& hints : lists) all.push_back(hints.All());
  return all;
}

inline ListsByResource AllOf(const HintsByResource& answer) {
  ListsByResource all;
  for (const auto& [resource, hints] : answer) {
    all[resource] = hints ? std::optional(hints->All()) : std::nullopt;
  }
  return all;
}

// The order of candidates; keeps the best one.
class OracleOrder {
 public:
  OracleOrder(const NumaInfo& numa, const std::vector<HintList>& lists, const MergeRules& rules)
      : numa_(numa), rules_(rules) {
    for (const HintList& list : lists) {
      int minimum = 0;
      for (const TopologyHint& hint : list) {
        if (!hint.affinity) continue;
        if (minimum == 0 || hint.affinity->Count() < minimum) minimum = hint.affinity->Count();
      }
      if (minimum > wanted_) wanted_ = minimum;
    }
  }

  void Offer(const TopologyHint& candidate) {
    if (candidate.affinity->empty()) return;
    if (!best_ || IsBetter(candidate)) best_ = candidate;
  }

  TopologyHint Best() const { return best_.value_or(TopologyHint{numa_.all(), false}); }

 private:
  bool IsBetter(const TopologyHint& candidate) const {
    if (best_->preferred != candidate.preferred) return candidate.preferred;
    const NumaMask current = *best_->affinity;
    const NumaMask mask = *candidate.affinity;
    const bool fitter = IsFitter(current, mask);
    if (candidate.preferred || rules_.as_1_20 || current.Count() > wanted_) return fitter;
    if (current.Count() == wanted_) return mask.Count() == wanted_ && fitter;
    if (mask.Count() > wanted_) return false;
    if (mask.Count() == wanted_) return true;
    return mask.Count() != current.Count() ? mask.Count() > current.Count() : fitter;
  }

  bool IsFitter(NumaMask current, NumaMask mask) const {
    if (mask.Count() != current.Count()) return mask.Count() < current.Count();
    if (rules_.prefer_closest) {
      const double a = numa_.AverageDistance(current);
      const double b = numa_.AverageDistance(mask);
      if (a != b) return b < a;
    }
    return mask.bits() < current.bits();
  }

  const NumaInfo& numa_;
  const MergeRules rules_;
  int wanted_ = 0;  // the largest of the narrowest masks of the lists
  std::optional<TopologyHint> best_;
};

// Every combination, one after the other.
class MergeOracle {
 public:
  MergeOracle(const NumaInfo& numa, const std::vector<HintList>& lists, const MergeRules& rules)
      : numa_(numa), lists_(lists), rules_(rules), order_(numa, lists, rules) {}

  TopologyHint Merge() {
    Choose(0);
    return order_.Best();
  }

 private:
  void Choose(size_t i) {
    if (i == lists_.size()) {
      OfferChosen();
      return;
    }
    for (const TopologyHint& hint : lists_[i]) {
      chosen_.push_back(hint);
      Choose(i + 1);
      chosen_.pop_back();
    }
  }

  void OfferChosen() {
    TopologyHint candidate{numa_.all(), true};
    std::optional<NumaMask> first;
    for (const TopologyHint& hint : chosen_) {
      if (!hint.preferred) candidate.preferred = false;
      if (!hint.affinity) continue;
      candidate.affinity = *candidate.affinity & *hint.affinity;
      if (!first) first = hint.affinity;
      if (*first != *hint.affinity && !rules_.as_1_20) candidate.preferred = false;
    }
    order_.Offer(candidate);
  }

  const NumaInfo& numa_;
  const std::vector<HintList>& lists_;
  const MergeRules rules_;
  OracleOrder order_;
  std::vector<TopologyHint> chosen_;
};

inline TopologyHint MergeByTryingAll(const NumaInfo& numa, const std::vector<HintList>& lists,
                                     const MergeRules& rules) {
  return MergeOracle(numa, lists, rules).Merge();
}

// The same combinations for large products: combinations of the first lists with the same mask and
// preference continue as one.
inline TopologyHint MergeByCarrying(const NumaInfo& numa, const std::vector<HintList>& lists,
                                    const MergeRules& rules) {
  // Mask, all preferred and (1.36) equal so far, some mask among them.
  using Reached = std::tuple<NumaMask, bool, bool>;
  std::set<Reached> reached = {{numa.all(), true, false}};
  for (const HintList& list : lists) {
    std::set<Reached> next;
    for (const auto& [mask, preferred, masked] : reached) {
      for (const TopologyHint& hint : list) {
        if (!hint.affinity) {
          next.emplace(mask, preferred && hint.preferred, masked);
          continue;
        }
        const bool agrees = rules.as_1_20 || !masked || mask == *hint.affinity;
        next.emplace(mask & *hint.affinity, preferred && hint.preferred && agrees, true);
      }
    }
    reached = std::move(next);
  }
  OracleOrder order(numa, lists, rules);
  for (const auto& [mask, preferred, masked] : reached) order.Offer({mask, preferred});
  return order.Best();
}

}  // namespace alignd::topologymanager
