// A lower bound of what an accepted set costs, for the search of the closest set. Private to this
// folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "core/topologymanager/sets/demand_table.h"

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
  // `classes` do not overlap. Both outlive this object.
  PricedBound(const std::vector<const DemandTable*>& demands, const std::vector<NumaMask>& classes);

  // The cost of a set that does not exist.
  static constexpr int64_t kImpossible = int64_t{1} << 40;

  // What each number of nodes of a class adds to the cost, at least.
  using CostsByCount = std::array<int64_t, NumaMask::kMaxNodes + 1>;

  // Sets with `taken[i]` nodes of each class before `first`, and `need` nodes of the others: of
  // each between `fewest[i]` and `most[i]`.
  struct Family {
    int64_t cost = 0;  // of the nodes of the classes before `first`
    size_t first = 0;
    int need = 0;
    const int* taken = nullptr;
    const int* fewest = nullptr;
    const int* most = nullptr;
    const CostsByCount* costs = nullptr;  // by class
  };

  // At most what any set of the family costs that satisfies the demands; kImpossible or more if
  // there is none. Looks no further once the bound is `enough`, and makes up to `moves` further
  // bounds. Adds the number of bounds to `steps`.
  int64_t AtLeast(const Family& family, int64_t enough, int moves, int64_t& steps);

 private:
  // What is wanted of each demand. A node's part of it is rounded up.
  static constexpr int64_t kWhole = int64_t{1} << 20;
  // Costs are multiplied by it, so that prices are whole numbers.
  static constexpr int64_t kScale = int64_t{1} << 20;
  // Sums of products stay below 2^61.
  static constexpr int64_t kMaxPrice = int64_t{1} << 27;
  static constexpr size_t kMaxDemands = 64;

  // After a change of prices.
  void Sort();
  // The bound under the prices, times kScale; and by demand, what the cheapest set lacks.
  int64_t Evaluate(const Family& family);
  // False: the cheapest set lacks nothing, so that no prices make a larger bound.
  bool Move(int64_t value, int64_t aim, double factor);

  using PerNode = std::array<int64_t, NumaMask::kMaxNodes>;
  struct Item {
    PerNode parts = {};  // of each node, of kWhole
    int64_t price = 0;
    int64_t best_price = 0;
    int64_t lack = 0;
  };

  std::vector<Item> items_;
  size_t classes_;
  // The nodes of all classes, class by class, those with the highest worth first.
  std::array<int, NumaMask::kMaxNodes> nodes_ = {};
  std::array<size_t, NumaMask::kMaxNodes + 1> begin_ = {};  // by class, in nodes_
  PerNode worth_ = {};                                      // by node: its parts at their prices
  // By class and number of its nodes: the worth of the best ones. At begin_[class] + class.
  std::array<int64_t, size_t{2}* NumaMask::kMaxNodes> worths_ = {};
  // By class and number of nodes of this class and those decided before it: how many it has.
  using Counts = std::array<uint8_t, NumaMask::kMaxNodes + 1>;
  std::vector<Counts> counts_;
};

}  // namespace alignd::topologymanager
