#include "core/topologymanager/subset_search.h"

#include <algorithm>
#include <array>
#include <bit>

namespace alignd::topologymanager {
namespace {

NumaMask Lowest(NumaMask nodes, int count) {
  NumaMask lowest;
  for (const int node : nodes) {
    if (count-- <= 0) break;
    lowest.Add(node);
  }
  return lowest;
}

int Highest(NumaMask nodes) { return 63 - std::countl_zero(nodes.bits()); }

// Goes through the sets in ascending order, by leaving out the highest nodes first.
class LowestSearch {
 public:
  LowestSearch(SubsetProblem& problem, Effort& effort) : problem_(problem), effort_(effort) {}

  // `lowest_failed`: the lowest of these sets is known not to be accepted.
  std::optional<NumaMask> Find(NumaMask chosen, NumaMask open, int need, bool lowest_failed) {
    if (need < 0 || open.Count() < need) return std::nullopt;
    const bool only_one = need == 0 || open.Count() == need;
    if ((only_one && lowest_failed) || !effort_.Step()) return std::nullopt;
    if (!problem_.IsPossible(chosen, open, need)) return std::nullopt;
    if (!lowest_failed) {
      const NumaMask lowest = chosen | Lowest(open, need);
      if (problem_.Accepts(lowest)) return lowest;
    }
    if (only_one) return std::nullopt;
    const NumaMask highest = NumaMask::Of(Highest(open));
    if (const auto found = Find(chosen, open - highest, need, true)) return found;
    if (const auto found = Find(chosen | highest, open - highest, need - 1, false)) return found;
    if (!effort_.IsUsedUp()) problem_.NoteImpossible(chosen, open, need);
    return std::nullopt;
  }

 private:
  SubsetProblem& problem_;
  Effort& effort_;
};

// Branch and bound. Distances are counted twice, so that halves stay whole: a set costs twice the
// sum over its ordered pairs, a node with itself included.
class ClosestSearch {
 public:
  using PerNode = std::array<int64_t, NumaMask::kMaxNodes>;

  ClosestSearch(NumaMask nodes, const NumaInfo& numa, SubsetProblem& problem, Effort& effort)
      : numa_(numa), problem_(problem), effort_(effort) {
    for (const int node : nodes) {
      int64_t* const nearest = nearest_[static_cast<size_t>(node)].data();
      int count = 0;
      for (const int other : nodes) {
        if (other != node) nearest[count++] = Pair(node, other);
      }
      std::sort(nearest, nearest + count);
      for (int i = 1; i < count; ++i) nearest[i] += nearest[i - 1];
      cost_of_adding_[static_cast<size_t>(node)] = 2 * numa_.Distance(node, node);
    }
  }

  std::optional<NumaMask> Find(NumaMask nodes, int size) {
    Descend({}, nodes, size, 0, cost_of_adding_);
    return best_;
  }

 private:
  int64_t Pair(int a, int b) const { return numa_.Distance(a, b) + numa_.Distance(b, a); }

  // No less than what `need` more nodes cost: each pays its way to all that are chosen, and half of
  // the way to the others, which are at best its nearest.
  int64_t LeastCost(NumaMask open, int need, const PerNode& adding) const {
    std::array<int64_t, NumaMask::kMaxNodes> costs;
    int count = 0;
    for (const int node : open) {
      const auto at = static_cast<size_t>(node);
      const int64_t others = need > 1 ? nearest_[at][static_cast<size_t>(need) - 2] : 0;
      costs[static_cast<size_t>(count++)] = adding[at] + others;
    }
    std::nth_element(costs.begin(), costs.begin() + (need - 1), costs.begin() + count);
    int64_t sum = 0;
    for (int i = 0; i < need; ++i) sum += costs[static_cast<size_t>(i)];
    return sum;
  }

  bool IsBetter(int64_t cost, NumaMask set) const {
    return !best_ || cost < best_cost_ || (cost == best_cost_ && set < *best_);
  }

  void Descend(NumaMask chosen, NumaMask open, int need, int64_t cost, const PerNode& adding) {
    if (open.Count() < need || !effort_.Step()) return;
    if (need == 0) {
      if (!IsBetter(cost, chosen) || !problem_.Accepts(chosen)) return;
      best_ = chosen;
      best_cost_ = cost;
      return;
    }
    if (!IsBetter(cost + LeastCost(open, need, adding), chosen | Lowest(open, need))) return;
    if (!problem_.IsPossible(chosen, open, need)) return;
    const int highest = Highest(open);
    const NumaMask rest = open - NumaMask::Of(highest);
    Descend(chosen, rest, need, cost, adding);
    PerNode next = adding;
    for (const int node : rest) next[static_cast<size_t>(node)] += 2 * Pair(node, highest);
    Descend(chosen | NumaMask::Of(highest), rest, need - 1,
            cost + adding[static_cast<size_t>(highest)], next);
  }

  const NumaInfo& numa_;
  SubsetProblem& problem_;
  Effort& effort_;
  // Of each node the sums of its 1, 2, ... nearest other nodes: once there and back, which is half
  // of what such a pair costs.
  std::array<PerNode, NumaMask::kMaxNodes> nearest_;
  PerNode cost_of_adding_ = {};
  std::optional<NumaMask> best_;
  int64_t best_cost_ = 0;
};

}  // namespace

std::optional<NumaMask> LowestSubset(NumaMask chosen, NumaMask open, int need,
                                     SubsetProblem& problem, Effort& effort) {
  return LowestSearch(problem, effort).Find(chosen, open, need, false);
}

std::optional<NumaMask> ClosestSubset(NumaMask nodes, int size, const NumaInfo& numa,
                                      SubsetProblem& problem, Effort& effort) {
  return ClosestSearch(nodes, numa, problem, effort).Find(nodes, size);
}

}  // namespace alignd::topologymanager
