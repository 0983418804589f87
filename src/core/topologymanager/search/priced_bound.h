// A lower bound of what an accepted set costs, for the search of the closest set. Private to this
// folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "core/topologymanager/search/node_parts.h"

namespace alignd::topologymanager {

// What a set costs is bounded by a sum over the classes: what so many nodes of a class add at
// least. The cheapest numbers of nodes are found class by class (dynamic programming).
// The cheapest nodes often have too little. So each demand gets a price: a set costs in addition
// what it lacks at that price, and less if it has more than is wanted. A set that has enough of
// everything does not become more expensive, so the cheapest set under any prices is a lower bound
// (Lagrangian relaxation). Prices that make the bound large are looked for by subgradients, and
// stay from call to call, because related families have related prices.
// All numbers of a bound are integers: it holds exactly, whatever the prices.
class PricedBound {
 public:
  // Of sets of `size` nodes. `classes` do not overlap.
  PricedBound(const NodeParts& parts, const std::vector<NumaMask>& classes, int size);

  // The cost of a set that does not exist.
  static constexpr int64_t kImpossible = int64_t{1} << 40;

  // What each number of nodes of a class adds to the cost, at least.
  using CostsByCount = std::array<int64_t, NumaMask::kMaxNodes + 1>;

  // Sets with between `fewest[i]` and `most[i]` nodes of each class.
  struct Family {
    const uint8_t* fewest = nullptr;
    const uint8_t* most = nullptr;
    const CostsByCount* costs = nullptr;  // by class
  };

  // At most what any set of the family costs that satisfies the demands; kImpossible or more if
  // there is none. Looks no further once the bound is `enough`, and makes up to `moves` further
  // bounds. Adds the number of bounds to `bounds`.
  int64_t AtLeast(const Family& family, int64_t enough, int moves, int64_t& bounds);

  // The same for the sets of that family with so many nodes of a class, under the prices that were
  // found. Begin with FindByCount.
  void FindByCount(const Family& family);
  int64_t ByCount(size_t of_class, size_t count) const {
    return InCosts(fixed_ + static_cast<int64_t>(by_count_[of_class][count]));
  }

 private:
  // Costs are multiplied by it, so that prices are whole numbers.
  static constexpr int64_t kScale = int64_t{1} << 18;
  // Sums of products stay below 2^53: floating point of 64 bits holds them exactly.
  static constexpr int64_t kMaxPrice = int64_t{1} << 23;
  static constexpr auto kNone = static_cast<double>(kImpossible * kScale);

  // After a change of prices.
  void Sort();
  // The bound under the prices, times kScale; and by demand, what the cheapest set lacks.
  int64_t Evaluate(const Family& family);
  // False: the cheapest set lacks nothing, so that no prices make a larger bound.
  bool Move(int64_t value, int64_t aim, double factor);

  using PerNode = std::array<int64_t, NumaMask::kMaxNodes>;
  struct Item {
    PerNode own = {};    // of each node alone, of NodeParts::kWhole
    PerNode parts = {};  // the same, with what shared places count for it
    int64_t wanted = 0;  // NodeParts::kWhole, less what counts in any case
    int64_t price = 0;
    int64_t best_price = 0;
    int64_t lack = 0;
  };

  // A place that several nodes share counts for each of its nodes that a set has, or once in any
  // case, or a mixture of both: each is an upper bound.
  struct Shared {
    size_t item = 0;
    NumaMask nodes;
    int64_t part = 0;
    int64_t in_any_case = 0;  // so many quarters of it
    int64_t best_in_any_case = 0;
  };
  void KeepBest();
  // After a change of what counts in any case.
  void ShareOut();

  std::vector<Item> items_;
  std::vector<Shared> shared_;
  NumaMask cheapest_;  // the set behind the last bound
  size_t classes_;
  // The nodes of all classes, class by class, those with the highest worth first.
  std::array<int, NumaMask::kMaxNodes> nodes_ = {};
  std::array<size_t, NumaMask::kMaxNodes + 1> begin_ = {};  // by class, in nodes_
  PerNode worth_ = {};                                      // by node: its parts at their prices
  // By class and number of its nodes: the worth of the best ones. At begin_[class] + class.
  std::array<int64_t, size_t{2}* NumaMask::kMaxNodes> worths_ = {};
  // By class and number of its nodes: what they add to the cost, less their worth.
  std::vector<std::array<double, NumaMask::kMaxNodes + 1>> added_;
  // By class and number of nodes of the classes before it: their least cost. What lies before the
  // first number is kNone: as if fewer nodes than none were impossible.
  static constexpr size_t kWidth = 8;  // a fixed number at a time, for vector instructions
  using Row = std::array<double, 2 * NumaMask::kMaxNodes + kWidth>;
  double* RowOf(size_t i) { return rows_[i].data() + NumaMask::kMaxNodes; }
  static size_t RoundedUp(size_t count) { return (count + kWidth - 1) / kWidth * kWidth; }
  static int64_t InCosts(int64_t value) {
    // Rounded up: costs are whole numbers.
    return value <= 0 ? 0 : (value + kScale - 1) / kScale;
  }
  // The numbers of nodes after this class, from those before it.
  void AddClass(const double* before, double* after, const double* added, size_t fewest,
                size_t most) const;
  std::vector<Row> rows_;
  size_t size_;
  int64_t fixed_ = 0;  // what is wanted, at the prices
  std::vector<std::array<double, NumaMask::kMaxNodes + 1>> by_count_;
};

}  // namespace alignd::topologymanager
