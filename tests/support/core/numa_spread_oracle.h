// The distribution over NUMA nodes as the kubelet searches it: every set of nodes, and for each
// every set of nodes for the remainder. Slow and obvious.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "core/cpumanager/numa_spread.h"

namespace alignd::cpumanager {

namespace spread_oracle {

// Calls `visit(subset)` for every subset of `size` items, in lexical order of their indices in the
// list, until it returns false.
template <typename Item, typename Visit>
void ForEachCombination(const std::vector<Item>& items, size_t size, Visit visit) {
  if (size == 0 || size > items.size()) return;
  std::vector<size_t> places(size);
  std::iota(places.begin(), places.end(), size_t{0});
  for (;;) {
    std::vector<Item> subset;
    subset.reserve(size);
    for (const size_t place : places) subset.push_back(items[place]);
    if (!visit(subset)) return;
    // Advance the last index that is not yet at its end; the later ones follow directly.
    size_t last = size;
    while (last > 0 && places[last - 1] == items.size() - size + last - 1) --last;
    if (last == 0) return;
    std::iota(places.begin() + static_cast<std::ptrdiff_t>(last - 1), places.end(),
              places[last - 1] + 1);
  }
}

using Nodes = std::vector<size_t>;

inline constexpr double kNoBalance = std::numeric_limits<double>::max();

inline double RoundToThousandths(double value) { return std::round(value * 1000) / 1000; }

// How unequal the numbers are: their standard deviation, rounded as the kubelet rounds it.
inline double Imbalance(const std::vector<int>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
  const double mean = RoundToThousandths(sum / count);
  double squares = 0;
  for (const int number : numbers) squares += (number - mean) * (number - mean);
  return RoundToThousandths(std::sqrt(squares / count));
}

// CPUs of those nodes that can be taken in whole groups.
inline int InGroups(const std::vector<int>& free_cpus, const Nodes& nodes, int group) {
  int cpus = 0;
  for (const size_t node : nodes) cpus += free_cpus[node] / group * group;
  return cpus;
}

// Takes groups from `nodes` in turn until `rest` CPUs are taken; a node without a free whole group
// is skipped. The nodes must have `rest` CPUs in groups.
inline Nodes TakeInTurns(std::vector<int>& free_cpus, const Nodes& nodes, int rest, int group) {
  Nodes turns;
  while (rest > 0) {
    for (const size_t node : nodes) {
      if (rest == 0) break;
      if (free_cpus[node] < group) continue;
      free_cpus[node] -= group;
      rest -= group;
      turns.push_back(node);
    }
  }
  return turns;
}

struct Remainder {
  Nodes turns;
  double balance = kNoBalance;
};

// The best choice of `nodes` for `rest` more CPUs, if all nodes have `free_cpus`. Larger choices
// are tried before smaller ones.
inline Remainder BestRemainder(const std::vector<int>& free_cpus, const Nodes& nodes, int rest,
                               int group) {
  if (rest == 0) return {.turns = {}, .balance = Imbalance(free_cpus)};
  Nodes givers;
  std::ranges::copy_if(nodes, std::back_inserter(givers),
                       [&](size_t node) { return free_cpus[node] >= group; });
  Remainder best;
  for (size_t size = givers.size(); size >= 1; --size) {
    ForEachCombination(givers, size, [&](const Nodes& subset) {
      if (InGroups(free_cpus, subset, group) < rest) return true;
      std::vector<int> available = free_cpus;
      Nodes turns = TakeInTurns(available, subset, rest, group);
      const double balance = Imbalance(available);
      if (balance < best.balance) best = {.turns = std::move(turns), .balance = balance};
      return true;
    });
  }
  return best;
}

// The best spread over exactly `size` nodes.
inline std::optional<NumaSpread> BestSpreadOver(size_t size, const std::vector<int>& free_cpus,
                                                const SpreadRequest& request) {
  const int nodes_count = static_cast<int>(size);
  const int even_share = request.count / nodes_count / request.group * request.group;
  const int rest = request.count - even_share * nodes_count;
  Nodes all(free_cpus.size());
  std::iota(all.begin(), all.end(), size_t{0});

  std::optional<NumaSpread> best;
  double best_balance = kNoBalance;
  ForEachCombination(all, size, [&](const Nodes& nodes) {
    const bool has_share =
        std::ranges::all_of(nodes, [&](size_t node) { return free_cpus[node] >= even_share; });
    if (!has_share || InGroups(free_cpus, nodes, request.group) < request.count) return true;
    std::vector<int> available = free_cpus;
    for (const size_t node : nodes) available[node] -= even_share;
    Remainder remainder = BestRemainder(available, nodes, rest, request.group);
    if (remainder.balance < best_balance) {
      best_balance = remainder.balance;
      best = {.nodes = nodes, .even_share = even_share, .turns = std::move(remainder.turns)};
    }
    return best_balance > 0;  // no balance is better
  });
  return best;
}

}  // namespace spread_oracle

// FindNumaSpread with the same arguments, in time that grows with 2^nodes times 2^nodes.
inline std::optional<NumaSpread> FindNumaSpreadByTryingAll(const std::vector<int>& free_cpus,
                                                           const SpreadRequest& request) {
  for (int size = request.fewest_nodes; size <= request.most_nodes; ++size) {
    std::optional<NumaSpread> spread =
        spread_oracle::BestSpreadOver(static_cast<size_t>(size), free_cpus, request);
    if (spread) return spread;
  }
  return std::nullopt;
}

}  // namespace alignd::cpumanager
