#include "core/topologymanager/search/closest_subset.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace alignd::topologymanager {
namespace {

// Branch and bound over the number of nodes of each class in the set. The nodes of a class have
// equal distances to each other and to every other node, so the cost of a set depends only on these
// numbers. A class is usually a socket. All costs are doubled to stay integers: the cost of a set
// is twice the sum over its ordered pairs, a node with itself included.
class ClosestSearch {
 public:
  ClosestSearch(NumaMask nodes, const NumaInfo& numa, SubsetProblem& problem, SearchBudget& budget)
      : numa_(numa), problem_(problem), budget_(budget) {
    for (NumaMask rest = nodes; !rest.empty(); rest = rest - classes_.back()) {
      classes_.push_back(AlikeTo(rest.Highest(), nodes) & rest);
    }
    levels_.resize(classes_.size());
  }

  std::optional<NumaMask> Find(int size) {
    State root{.family = {}, .first = 0, .need = size, .cost = 0, .adding = {}};
    for (const NumaMask alike : classes_) {
      const int node = *alike.begin();
      root.adding.push_back(2 * numa_.Distance(node, node));
    }
    Descend(root);
    return best_;
  }

 private:
  // The classes before `first` are decided; `need` more nodes come from the others.
  struct State {
    SetFamily family;
    size_t first = 0;
    int need = 0;
    int64_t cost = 0;
    std::vector<int64_t> adding;  // cost of one more node of each class, with the decided nodes
  };

  int64_t Pair(int a, int b) const { return numa_.Distance(a, b) + numa_.Distance(b, a); }

  NumaMask AlikeTo(int node, NumaMask nodes) const {
    NumaMask alike;
    for (const int other : nodes) {
      const bool is_alike =
          numa_.Distance(node, node) == numa_.Distance(other, other) &&
          std::ranges::all_of(nodes.begin(), nodes.end(), [&](int third) {
            return third == node || third == other || Pair(node, third) == Pair(other, third);
          });
      if (is_alike) alike.Add(other);
    }
    return alike;
  }

  int64_t BetweenNodes(size_t a, size_t b) const {
    const int node = *classes_[a].begin();
    if (a != b) return Pair(node, *classes_[b].begin());
    return classes_[a].Count() == 1 ? 0 : Pair(node, classes_[a].Highest());
  }

  NumaMask OpenFrom(size_t first) const {
    NumaMask open;
    for (; first < classes_.size(); ++first) open = open | classes_[first];
    return open;
  }

  // By class: the sums of the distances of a node to its 0, 1, 2, ... nearest nodes in the classes
  // from `first` on, in both directions: half of the cost of these pairs.
  const std::vector<std::vector<int64_t>>& Nearest(size_t first) {
    std::vector<std::vector<int64_t>>& level = levels_[first];
    if (!level.empty()) return level;
    level.resize(classes_.size());
    for (size_t of = first; of < classes_.size(); ++of) {
      std::vector<int64_t> pairs;
      for (size_t to = first; to < classes_.size(); ++to) {
        const int others = classes_[to].Count() - (to == of ? 1 : 0);
        pairs.insert(pairs.end(), static_cast<size_t>(others), BetweenNodes(of, to));
      }
      std::ranges::sort(pairs);
      level[of] = {0};
      for (const int64_t pair : pairs) level[of].push_back(level[of].back() + pair);
    }
    return level;
  }

  // A lower bound of the cost: each needed node adds its pairs with the decided nodes, and half of
  // its pairs with the other needed nodes, which are at best its nearest.
  int64_t LeastCost(const State& state) {
    if (state.need == 0) return state.cost;
    const auto& nearest = Nearest(state.first);
    std::vector<std::pair<int64_t, int>> costs;  // of one node, and the number of such nodes
    for (size_t i = state.first; i < classes_.size(); ++i) {
      costs.emplace_back(state.adding[i] + nearest[i][static_cast<size_t>(state.need) - 1],
                         classes_[i].Count());
    }
    std::ranges::sort(costs);
    int64_t cost = state.cost;
    int need = state.need;
    for (const auto& [of_one, count] : costs) {
      const int taken = std::min(count, need);
      cost += taken * of_one;
      need -= taken;
    }
    return cost;
  }

  SetFamily FamilyOf(const State& state) const {
    SetFamily family = state.family;
    family.parts.push_back({OpenFrom(state.first), state.need});
    return family;
  }

  bool IsBetter(int64_t cost, NumaMask set) const {
    return !best_ || cost < best_cost_ || (cost == best_cost_ && set < *best_);
  }

  State With(const State& state, int count) const {
    State next = state;
    const size_t taken = next.first++;
    next.family.parts.push_back({classes_[taken], count});
    next.need -= count;
    next.cost +=
        count * state.adding[taken] + int64_t{count} * (count - 1) * BetweenNodes(taken, taken);
    for (size_t i = next.first; i < classes_.size(); ++i) {
      next.adding[i] += 2 * count * BetweenNodes(taken, i);
    }
    return next;
  }

  void Descend(const State& state) {
    if (!budget_.Step()) return;
    SetFamily family = FamilyOf(state);
    if (!family.Settle() || !problem_.IsPossible(family)) return;
    if (state.need == 0 || state.first + 1 == classes_.size()) {
      const auto found = LowestSubset(std::move(family), problem_, budget_);
      const int64_t cost = LeastCost(state);
      if (!found || !IsBetter(cost, *found)) return;
      best_ = found;
      best_cost_ = cost;
      return;
    }
    struct Child {
      int64_t cost;
      NumaMask lowest;
      State state;
    };
    std::vector<Child> children;
    const int others = OpenFrom(state.first + 1).Count();
    const int most = std::min(state.need, classes_[state.first].Count());
    for (int count = std::max(0, state.need - others); count <= most; ++count) {
      State next = With(state, count);
      const int64_t cost = LeastCost(next);
      const NumaMask lowest = FamilyOf(next).Lowest();
      if (IsBetter(cost, lowest)) children.push_back({cost, lowest, std::move(next)});
    }
    std::ranges::sort(children, [](const Child& a, const Child& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.lowest < b.lowest;
    });
    for (const Child& child : children) {
      if (IsBetter(child.cost, child.lowest)) Descend(child.state);
    }
  }

  const NumaInfo& numa_;
  SubsetProblem& problem_;
  SearchBudget& budget_;
  std::vector<NumaMask> classes_;  // those with the highest nodes first
  std::vector<std::vector<std::vector<int64_t>>> levels_;
  std::optional<NumaMask> best_;
  int64_t best_cost_ = 0;
};

}  // namespace

std::optional<NumaMask> ClosestSubset(NumaMask nodes, int size, const NumaInfo& numa,
                                      SubsetProblem& problem, SearchBudget& budget) {
  return ClosestSearch(nodes, numa, problem, budget).Find(size);
}

}  // namespace alignd::topologymanager
