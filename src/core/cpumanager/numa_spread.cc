#include "core/cpumanager/numa_spread.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/cpumanager/subsets.h"

namespace alignd::cpumanager {
namespace {

using Nodes = std::vector<size_t>;

constexpr double kNoBalance = std::numeric_limits<double>::max();

double RoundToThousandths(double value) { return std::round(value * 1000) / 1000; }

// How unequal the numbers are: their standard deviation, rounded as the kubelet rounds it.
double Imbalance(const std::vector<int>& numbers) {
  const auto count = static_cast<double>(numbers.size());
  const double sum = std::accumulate(numbers.begin(), numbers.end(), 0.0);
  const double mean = RoundToThousandths(sum / count);
  double squares = 0;
  for (const int number : numbers) squares += (number - mean) * (number - mean);
  return RoundToThousandths(std::sqrt(squares / count));
}

// CPUs of those nodes that can be handed out in whole groups.
int InGroups(const std::vector<int>& free_cpus, const Nodes& nodes, int group) {
  int cpus = 0;
  for (const size_t node : nodes) cpus += free_cpus[node] / group * group;
  return cpus;
}

// Takes groups from `nodes` in turn until `rest` CPUs are taken; whoever has no whole group left
// misses its turn. The nodes must have `rest` CPUs in groups.
Nodes TakeInTurns(std::vector<int>& free_cpus, const Nodes& nodes, int rest, int group) {
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

// The best way for some of `nodes` to give `rest` more CPUs, when `free_cpus` are left on all
// nodes. More givers are tried before fewer.
Remainder BestRemainder(const std::vector<int>& free_cpus, const Nodes& nodes, int rest,
                        int group) {
  if (rest == 0) return {.turns = {}, .balance = Imbalance(free_cpus)};
  Nodes givers;
  std::ranges::copy_if(nodes, std::back_inserter(givers),
                       [&](size_t node) { return free_cpus[node] >= group; });
  Remainder best;
  for (size_t size = givers.size(); size >= 1; --size) {
    ForEachSubset(givers, size, [&](const Nodes& subset) {
      if (InGroups(free_cpus, subset, group) < rest) return true;
      std::vector<int> left = free_cpus;
      Nodes turns = TakeInTurns(left, subset, rest, group);
      const double balance = Imbalance(left);
      if (balance < best.balance) best = {.turns = std::move(turns), .balance = balance};
      return true;
    });
  }
  return best;
}

// The best spread over exactly `size` nodes.
std::optional<NumaSpread> BestSpreadOver(size_t size, const std::vector<int>& free_cpus,
                                         const SpreadRequest& request) {
  const int nodes_count = static_cast<int>(size);
  const int even_share = request.count / nodes_count / request.group * request.group;
  const int rest = request.count - even_share * nodes_count;
  Nodes all(free_cpus.size());
  std::iota(all.begin(), all.end(), size_t{0});

  std::optional<NumaSpread> best;
  double best_balance = kNoBalance;
  ForEachSubset(all, size, [&](const Nodes& nodes) {
    const bool has_share =
        std::ranges::all_of(nodes, [&](size_t node) { return free_cpus[node] >= even_share; });
    if (!has_share || InGroups(free_cpus, nodes, request.group) < request.count) return true;
    std::vector<int> left = free_cpus;
    for (const size_t node : nodes) left[node] -= even_share;
    Remainder remainder = BestRemainder(left, nodes, rest, request.group);
    if (remainder.balance < best_balance) {
      best_balance = remainder.balance;
      best = {.nodes = nodes, .even_share = even_share, .turns = std::move(remainder.turns)};
    }
    return best_balance > 0;  // nothing beats perfect balance
  });
  return best;
}

}  // namespace

std::optional<NumaSpread> FindNumaSpread(const std::vector<int>& free_cpus,
                                         const SpreadRequest& request) {
  for (int size = request.fewest_nodes; size <= request.most_nodes; ++size) {
    std::optional<NumaSpread> spread =
        BestSpreadOver(static_cast<size_t>(size), free_cpus, request);
    if (spread) return spread;
  }
  return std::nullopt;
}

}  // namespace alignd::cpumanager
