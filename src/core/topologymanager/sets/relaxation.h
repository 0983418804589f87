// A bound for several demands together: what no set can satisfy although each demand alone could be
// satisfied. Private to the module.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// Shares of what is wanted are compared with this margin: far more than sums of 64 quotients can be
// off.
inline constexpr double kRounding = 1e-9;

// Demands become one by weights: if the best nodes have less than the weighted sum of what is
// missing, no set satisfies all demands. This holds for all weights, so they may be estimates.
// Improve() moves them towards those demands that the best nodes do not satisfy (the Lagrangian
// dual of the linear relaxation, by subgradients). The weights stay from family to family, because
// related families have related weights.
// A place that several nodes share counts once for each of its nodes that is chosen, or once in any
// case, or a mixture of both: each is an upper bound.
// Amounts are shares of what is wanted, in floating point. The bound has a margin for rounding.
class Relaxation {
 public:
  // The demands outlive it.
  explicit Relaxation(const std::vector<const DemandTable*>& demands);

  // What one bound costs, in steps of the budget: it grows with the places that nodes share. One
  // plugin can report many thousands.
  int64_t steps() const { return 1 + static_cast<int64_t>(shared_.size() / kSharedInAStep); }

  // Begins with another family, which is settled and has a part.
  void Start(const SetFamily& family);

  // Finds the best set under the weights. False if no set of the family satisfies all demands.
  bool Evaluate();
  // After Evaluate: the best set of the family under the weights. It may not satisfy the demands.
  NumaMask best() const { return best_; }
  // Whether it satisfies them, up to rounding.
  bool IsBestEnough() const;
  // Moves the weights.
  void Improve();

  // By demand; their sum is 1. Demands of which nothing is missing have none. Takes no memory if
  // `weights` had as many before.
  void CopyWeights(std::vector<double>& weights) const;

  // The best set, with nodes exchanged one by one for others as long as less is missing. nullopt
  // if something is missing still. What shared places gain or lose by an exchange is not counted,
  // so it may not satisfy the demands.
  std::optional<NumaMask> Repaired();

  // The open node about which the best sets disagree most: half of them have it.
  int MostDisputed() const;
  // Whether most of the best sets have the node.
  bool IsUsual(int node) const { return 2 * usual_[static_cast<size_t>(node)] >= evaluations_; }

 private:
  static constexpr size_t kSharedInAStep = 256;

  using PerNode = std::array<double, NumaMask::kMaxNodes>;

  struct Item {
    PerNode shares = {};  // in places of one node
    double wanted = 0;
    const DemandTable* demand = nullptr;
    double weight = 1;
    // Of the family.
    double missing = 0;  // 0: nothing
    double surplus = 0;  // of the best set, above what is missing
    double gradient = 0;
  };
  struct Shared {
    size_t item = 0;
    NumaMask nodes;
    double share = 0;
    // How much of the place counts in any case; the rest counts for each chosen node.
    double in_any_case = 0;
    // Of the family.
    NumaMask open;  // empty: no longer of interest
  };

  double Violation(const std::vector<double>& surplus) const;
  // The sets of the family with one node exchanged: takes the exchange after which least is
  // missing. False if none is better.
  bool Exchange(NumaMask& set, double& violation);

  std::vector<Item> items_;
  std::vector<Shared> shared_;
  SetFamily family_;
  NumaMask open_;
  NumaMask best_;
  double value_ = 0;    // of the best set, above what is missing, under the weights
  PerNode usual_ = {};  // how often the best set had the node
  double evaluations_ = 0;
  std::vector<double> surplus_;  // for Repaired
  std::vector<double> tried_;
};

}  // namespace alignd::topologymanager
