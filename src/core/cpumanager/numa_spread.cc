#include "core/cpumanager/numa_spread.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <utility>

#include "core/cpumanager/spread_search.h"

namespace alignd::cpumanager {
namespace {

using Nodes = std::vector<size_t>;

int64_t FloorOfRoot(int64_t number) {
  auto root = static_cast<int64_t>(std::sqrt(static_cast<double>(number)));
  while (root * root > number) --root;
  while ((root + 1) * (root + 1) <= number) ++root;
  return root;
}

// The balance is the standard deviation of the free CPUs per node afterwards; mean and result are
// rounded to thousandths, halves up. The sum of free CPUs is the same for every choice. So the
// balance depends only on the sum of the squares and grows with it. Returns the largest sum of
// squares with the same balance as `squares`.
// Integers give the same result as the kubelet's floating point: with fewer than 64 nodes, no value
// is so near to half a thousandth that it is rounded differently.
int64_t LargestAsBalanced(int64_t squares, int64_t sum, int64_t nodes) {
  const int64_t mean = (2000 * sum + nodes) / (2 * nodes);  // thousandths
  // The variance is (a * squares - b) / nodes, in thousandths squared.
  constexpr int64_t a = 1'000'000;
  const int64_t b = 2000 * mean * sum - nodes * mean * mean;
  // Halves are rounded up.
  const int64_t doubled = FloorOfRoot(4 * (a * squares - b) / nodes);
  const int64_t odd = doubled % 2 == 0 ? doubled + 1 : doubled + 2;
  return (nodes * odd * odd + 4 * b - 1) / (4 * a);
}

// One request over one number of nodes.
class Spread {
 public:
  Spread(const std::vector<int>& free_cpus, const SpreadRequest& request, int size)
      : free_cpus_(free_cpus),
        group_(request.group),
        size_(size),
        even_groups_(request.count / request.group / size),
        rest_(request.count / request.group - even_groups_ * size) {}

  // Whether some `size` nodes have the even share each, and all groups in sum. If any nodes do, the
  // nodes with the most CPUs do.
  bool IsPossible() const {
    std::vector<int> groups;
    for (const int cpus : free_cpus_) groups.push_back(cpus / group_);
    std::ranges::sort(groups, std::greater<>());
    if (groups.size() < static_cast<size_t>(size_)) return false;
    int64_t in_all = 0;
    for (int i = 0; i < size_; ++i) in_all += groups[static_cast<size_t>(i)];
    return groups[static_cast<size_t>(size_) - 1] >= even_groups_ &&
           in_all >= int64_t{even_groups_} * size_ + rest_;
  }

  NumaSpread Best() const {
    const auto count = static_cast<size_t>(size_);
    const SpreadSearch sharers(Sharers(), {rest_, group_, /*may_sit_out=*/true}, count, count);
    int64_t sum = -(int64_t{even_groups_} * size_ + rest_) * group_;
    for (const int cpus : free_cpus_) sum += cpus;
    const auto nodes = static_cast<int64_t>(free_cpus_.size());
    const int64_t bound = LargestAsBalanced(sharers.Least(count), sum, nodes);
    NumaSpread spread{
        .nodes = sharers.First(count, bound), .even_share = even_groups_ * group_, .turns = {}};
    if (rest_ > 0) spread.turns = TakeInTurns(Givers(spread.nodes, bound));
    return spread;
  }

 private:
  int Groups(size_t node) const { return free_cpus_[node] / group_ - even_groups_; }

  std::vector<SpreadNode> Sharers() const {
    std::vector<SpreadNode> nodes;
    for (size_t node = 0; node < free_cpus_.size(); ++node) {
      nodes.push_back({.can_be_chosen = Groups(node) >= 0,
                       .unchosen = free_cpus_[node],
                       .chosen = free_cpus_[node] - even_groups_ * group_,
                       .groups = Groups(node)});
    }
    return nodes;
  }

  // The sharing nodes that provide the remainder: as many as possible with the best balance; of
  // those choices the first in lexical order.
  Nodes Givers(const Nodes& sharers, int64_t bound) const {
    std::vector<SpreadNode> nodes = Sharers();
    for (SpreadNode& node : nodes) node.can_be_chosen = false;
    size_t most = 0;
    for (const size_t sharer : sharers) {
      SpreadNode& node = nodes[sharer];
      node.unchosen = node.chosen;
      node.can_be_chosen = node.groups > 0;
      if (node.can_be_chosen) ++most;
    }
    const SpreadSearch givers(std::move(nodes), {rest_, group_, /*may_sit_out=*/false}, 1, most);
    while (givers.Least(most) > bound) --most;
    return givers.First(most, bound);
  }

  // The order of the nodes that provide the remainder.
  Nodes TakeInTurns(const Nodes& givers) const {
    Nodes turns;
    for (int round = 0; turns.size() < static_cast<size_t>(rest_); ++round) {
      for (const size_t node : givers) {
        if (turns.size() == static_cast<size_t>(rest_)) break;
        if (Groups(node) > round) turns.push_back(node);
      }
    }
    return turns;
  }

  const std::vector<int>& free_cpus_;
  const int group_;
  const int size_;
  const int even_groups_;  // that each node provides
  const int rest_;         // groups of the remainder, taken in turns; fewer than nodes
};

}  // namespace

std::optional<NumaSpread> FindNumaSpread(const std::vector<int>& free_cpus,
                                         const SpreadRequest& request) {
  for (int size = request.fewest_nodes; size <= request.most_nodes; ++size) {
    const Spread spread(free_cpus, request, size);
    if (spread.IsPossible()) return spread.Best();
  }
  return std::nullopt;
}

}  // namespace alignd::cpumanager
