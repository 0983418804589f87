#include "core/topologymanager/search/subset_search.h"

#include <algorithm>
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
  LowestSearch(SubsetProblem& problem, SearchBudget& budget) : problem_(problem), budget_(budget) {}

  // `lowest_failed`: the lowest of these sets is known not to be accepted.
  std::optional<NumaMask> Find(SetFamily family, bool lowest_failed) {
    if (!family.Settle() || (family.parts.empty() && lowest_failed)) return std::nullopt;
    if (!budget_.Step() || !problem_.IsPossible(family)) return std::nullopt;
    if (!lowest_failed) {
      const NumaMask lowest = family.Lowest();
      if (problem_.Accepts(lowest)) return lowest;
    }
    if (family.parts.empty()) {
      if (!budget_.IsUsedUp()) problem_.NoteImpossible(family);
      return std::nullopt;
    }
    const auto part = static_cast<size_t>(
        std::ranges::max_element(family.parts, {}, [](const auto& p) { return Highest(p.open); }) -
        family.parts.begin());
    const NumaMask highest = NumaMask::Of(Highest(family.parts[part].open));
    SetFamily rest = family;
    rest.parts[part].open = rest.parts[part].open - highest;
    if (const auto found = Find(rest, true)) return found;
    rest.chosen = rest.chosen | highest;
    --rest.parts[part].need;
    if (const auto found = Find(std::move(rest), false)) return found;
    if (!budget_.IsUsedUp()) problem_.NoteImpossible(family);
    return std::nullopt;
  }

 private:
  SubsetProblem& problem_;
  SearchBudget& budget_;
};

// Branch and bound over how many nodes of each class are in the set. Nodes of a class are as far
// from each other as from anything else, so these numbers are all that distances depend on: what a
// machine's sockets are, as a rule. Distances are counted twice, so that halves stay whole: a set
// costs twice the sum over its ordered pairs, a node with itself included.
class ClosestSearch {
 public:
  ClosestSearch(NumaMask nodes, const NumaInfo& numa, SubsetProblem& problem, SearchBudget& budget)
      : numa_(numa), problem_(problem), budget_(budget) {
    for (NumaMask rest = nodes; !rest.empty(); rest = rest - classes_.back().nodes) {
      classes_.push_back({.nodes = AlikeTo(Highest(rest), nodes) & rest});
    }
    levels_.resize(classes_.size());
  }

  std::optional<NumaMask> Find(int size) {
    State root{.family = {}, .first = 0, .need = size, .cost = 0, .adding = {}};
    for (const Class& alike : classes_) {
      const int node = *alike.nodes.begin();
      root.adding.push_back(2 * numa_.Distance(node, node));
    }
    Descend(root);
    return best_;
  }

 private:
  struct Class {
    NumaMask nodes;
  };

  // The classes before `first` are decided about, `need` more nodes come from the others.
  struct State {
    SetFamily family;
    size_t first = 0;
    int need = 0;
    int64_t cost = 0;
    std::vector<int64_t> adding;  // what a node of each class would cost, paired with those decided
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
    const int node = *classes_[a].nodes.begin();
    if (a != b) return Pair(node, *classes_[b].nodes.begin());
    return classes_[a].nodes.Count() == 1 ? 0 : Pair(node, Highest(classes_[a].nodes));
  }

  NumaMask OpenFrom(size_t first) const {
    NumaMask open;
    for (; first < classes_.size(); ++first) open = open | classes_[first].nodes;
    return open;
  }

  // By class: the sums of a node's 0, 1, 2, ... nearest among the classes from `first` on; once
  // there and back, which is half of what such a pair costs.
  const std::vector<std::vector<int64_t>>& Nearest(size_t first) {
    std::vector<std::vector<int64_t>>& level = levels_[first];
    if (!level.empty()) return level;
    level.resize(classes_.size());
    for (size_t of = first; of < classes_.size(); ++of) {
      std::vector<int64_t> pairs;
      for (size_t to = first; to < classes_.size(); ++to) {
        const int others = classes_[to].nodes.Count() - (to == of ? 1 : 0);
        pairs.insert(pairs.end(), static_cast<size_t>(others), BetweenNodes(of, to));
      }
      std::ranges::sort(pairs);
      level[of] = {0};
      for (const int64_t pair : pairs) level[of].push_back(level[of].back() + pair);
    }
    return level;
  }

  // No less than what the cheapest set costs: each node that is still needed pays its way to all
  // that are decided, and half of the way to the others, which are at best its nearest.
  int64_t LeastCost(const State& state) {
    if (state.need == 0) return state.cost;
    const auto& nearest = Nearest(state.first);
    std::vector<std::pair<int64_t, int>> costs;  // of a node, and how many there are
    for (size_t i = state.first; i < classes_.size(); ++i) {
      costs.emplace_back(state.adding[i] + nearest[i][static_cast<size_t>(state.need) - 1],
                         classes_[i].nodes.Count());
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
    next.family.parts.push_back({classes_[taken].nodes, count});
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
    const int most = std::min(state.need, classes_[state.first].nodes.Count());
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
  std::vector<Class> classes_;  // those with the highest nodes first
  std::vector<std::vector<std::vector<int64_t>>> levels_;
  std::optional<NumaMask> best_;
  int64_t best_cost_ = 0;
};

}  // namespace

NumaMask SetFamily::Open() const {
  NumaMask open;
  for (const Part& part : parts) open = open | part.open;
  return open;
}

int SetFamily::Need() const {
  int need = 0;
  for (const Part& part : parts) need += part.need;
  return need;
}

NumaMask SetFamily::Lowest() const {
  NumaMask lowest = chosen;
  for (const Part& part : parts) {
    lowest = lowest | topologymanager::Lowest(part.open, part.need);
  }
  return lowest;
}

bool SetFamily::Settle() {
  for (Part& part : parts) {
    const int count = part.open.Count();
    if (part.need < 0 || part.need > count) return false;
    if (part.need == count) {
      chosen = chosen | part.open;
      part.need = 0;
    }
  }
  std::erase_if(parts, [](const Part& part) { return part.need == 0; });
  return true;
}

std::optional<NumaMask> LowestSubset(SetFamily family, SubsetProblem& problem,
                                     SearchBudget& budget) {
  return LowestSearch(problem, budget).Find(std::move(family), false);
}

std::optional<NumaMask> ClosestSubset(NumaMask nodes, int size, const NumaInfo& numa,
                                      SubsetProblem& problem, SearchBudget& budget) {
  return ClosestSearch(nodes, numa, problem, budget).Find(size);
}

}  // namespace alignd::topologymanager
