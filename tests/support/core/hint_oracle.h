// The merge of hints as the kubelet does it: every combination, one after the other. Slow, obvious,
// and written apart from the real one.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"

namespace alignd::topologymanager {

class MergeOracle {
 public:
  MergeOracle(const NumaInfo& numa, const std::vector<HintList>& lists, const MergeRules& rules)
      : numa_(numa), lists_(lists), rules_(rules) {
    for (const HintList& list : lists) {
      int minimum = 0;
      for (const TopologyHint& hint : list) {
        if (!hint.affinity) continue;
        if (minimum == 0 || hint.affinity->Count() < minimum) minimum = hint.affinity->Count();
      }
      if (minimum > wanted_) wanted_ = minimum;
    }
  }

  TopologyHint Merge() {
    Choose(0);
    return best_.value_or(TopologyHint{numa_.all(), false});
  }

 private:
  void Choose(size_t i) {
    if (i == lists_.size()) {
      JudgeChosen();
      return;
    }
    for (const TopologyHint& hint : lists_[i]) {
      chosen_.push_back(hint);
      Choose(i + 1);
      chosen_.pop_back();
    }
  }

  void JudgeChosen() {
    TopologyHint candidate{numa_.all(), true};
    std::optional<NumaMask> first;
    for (const TopologyHint& hint : chosen_) {
      if (!hint.preferred) candidate.preferred = false;
      if (!hint.affinity) continue;
      candidate.affinity = *candidate.affinity & *hint.affinity;
      if (!first) first = hint.affinity;
      if (*first != *hint.affinity && !rules_.as_1_20) candidate.preferred = false;
    }
    if (candidate.affinity->empty()) return;
    if (!best_ || IsBetter(candidate)) best_ = candidate;
  }

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
  const std::vector<HintList>& lists_;
  const MergeRules& rules_;
  int wanted_ = 0;  // the largest of the lists' smallest masks
  std::vector<TopologyHint> chosen_;
  std::optional<TopologyHint> best_;
};

inline TopologyHint MergeByTryingAll(const NumaInfo& numa, const std::vector<HintList>& lists,
                                     const MergeRules& rules) {
  return MergeOracle(numa, lists, rules).Merge();
}

}  // namespace alignd::topologymanager
