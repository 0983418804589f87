#include "core/topologymanager/search/closest_subset.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/topologymanager/search/priced_bound.h"

namespace alignd::topologymanager {
namespace {

// Branch and bound over the number of nodes of each class in the set. All costs are doubled to stay
// integers: the cost of a set is twice the sum over its ordered pairs, a node with itself included.
class ClosestSearch {
 public:
  ClosestSearch(const DistanceClasses& distances, MemberSearch& search, SearchBudget& budget)
      : distances_(distances),
        classes_(distances.classes()),
        search_(search),
        budget_(budget),
        priced_(search.demands(), classes_),
        costs_(classes_.size()),
        levels_(classes_.size()),
        open_from_(classes_.size() + 1) {
    for (size_t i = classes_.size(); i-- > 0;) open_from_[i] = open_from_[i + 1] | classes_[i];
  }

  std::optional<NumaMask> Find(int size) {
    State root{.decided = {}, .first = 0, .need = size, .cost = 0, .adding = {}, .taken = {}};
    for (size_t i = 0; i < classes_.size(); ++i) root.adding[i] = 2 * distances_.OfOne(i);
    FindRanges(size);
    Descend(root, std::nullopt);
    return best_;
  }

 private:
  static constexpr size_t kMaxClasses = NumaMask::kMaxNodes;

  // The classes before `first` are decided; `need` more nodes come from the others.
  struct State {
    SetFamily decided;
    size_t first = 0;
    int need = 0;
    int64_t cost = 0;
    // By class: the cost of one more node of it, with the decided nodes.
    std::array<int64_t, kMaxClasses> adding;
    // By class before `first`: its nodes in the set.
    std::array<int, kMaxClasses> taken;
  };
  struct Child {
    int64_t cost = 0;
    NumaMask lowest;
    int count = 0;  // of the nodes of the first class that is not decided
  };

  // By number of nodes: the sum of the distances of a node of the class `of` to its nearest ones in
  // the other classes from `first` on, in both directions: half of the cost of these pairs.
  using Sums = PricedBound::CostsByCount;
  const Sums& NearestOthers(size_t first, size_t of) {
    std::vector<Sums>& level = levels_[first];
    if (level.empty()) {  // once for each class and search
      level.resize(classes_.size());
      for (size_t i = first; i < classes_.size(); ++i) level[i] = FindNearest(first, i);
    }
    return level[of];
  }

  Sums FindNearest(size_t first, size_t of) const {
    std::array<int64_t, NumaMask::kMaxNodes> pairs;
    auto* end = pairs.begin();
    for (size_t to = first; to < classes_.size(); ++to) {
      if (to != of) end = std::fill_n(end, most_[to], distances_.Between(of, to));
    }
    std::sort(pairs.begin(), end);
    const auto count = static_cast<size_t>(end - pairs.begin());
    Sums sums;
    sums[0] = 0;
    for (size_t i = 0; i + 1 < sums.size(); ++i) {
      sums[i + 1] = i < count ? sums[i] + pairs[i] : PricedBound::kImpossible;
    }
    return sums;
  }

  // A lower bound of the cost. Of the classes that are not decided, a number of nodes has the pairs
  // among them and with the decided nodes, and half of the pairs with the other needed nodes, which
  // are at best the nearest. Once there is a set to beat, the demands matter as well.
  int64_t LeastCost(const State& state) {
    if (state.need == 0) return state.cost;
    for (size_t i = state.first; i < classes_.size(); ++i) {
      const Sums& nearest = NearestOthers(state.first, i);
      const int64_t pair = distances_.Between(i, i);
      Sums& costs = costs_[i];
      costs[0] = 0;
      for (int count = 1; count <= std::min(state.need, most_[i]); ++count) {
        const int64_t others = nearest[static_cast<size_t>(state.need - count)];
        costs[static_cast<size_t>(count)] =
            others >= PricedBound::kImpossible
                ? PricedBound::kImpossible
                : count * (state.adding[i] + (count - 1) * pair + others);
      }
    }
    constexpr int kMoves = 2;
    constexpr int kFirstMoves = 48;  // no prices are known yet
    int64_t steps = 0;
    const int64_t cost = priced_.AtLeast(
        {.cost = state.cost,
         .first = state.first,
         .need = state.need,
         .taken = state.taken.data(),
         .fewest = fewest_.data(),
         .most = most_.data(),
         .costs = costs_.data()},
        best_ ? best_cost_ + 1 : 0,
        std::exchange(has_prices_, best_.has_value()) ? kMoves : kFirstMoves, steps);
    // Such a bound takes half the time of the others.
    (void)budget_.Step((steps + 1) / 2);
    return cost;
  }

  // Of an accepted set.
  int64_t CostOf(NumaMask set) const { return 2 * distances_.numa().DistanceSum(set); }

  // An accepted set has between `fewest_` and `most_` nodes of a class.
  void FindRanges(int size) {
    std::optional<NumaMask> known;
    for (size_t i = 0; i < classes_.size(); ++i) {
      const NumaMask others = open_from_.front() - classes_[i];
      const auto is_possible = [&](int count) {
        const SetFamily family{{}, {{classes_[i], count}, {others, size - count}}};
        if (known && family.Contains(*known)) return true;
        constexpr int64_t kMaxSteps = 48;  // most answers take a few
        SearchBudget budget(std::min(kMaxSteps, budget_.available()));
        const int64_t before = budget.available();
        const auto found = search_.Any(family, budget);
        budget_.Use(before - budget.available());
        if (found) known = found;
        return found || budget.IsUsedUp();
      };
      int fewest = 0;
      int most = std::min(size, classes_[i].Count());
      while (fewest < most && !is_possible(fewest)) ++fewest;
      while (fewest < most && !is_possible(most)) --most;
      fewest_.push_back(fewest);
      most_.push_back(most);
    }
  }

  SetFamily FamilyOf(const State& state) const {
    SetFamily family = state.decided;
    family.parts.Add({open_from_[state.first], state.need});
    (void)family.Settle();
    return family;
  }

  bool IsBetter(int64_t cost, NumaMask set) const {
    if (cost >= PricedBound::kImpossible) return false;
    return !best_ || cost < best_cost_ || (cost == best_cost_ && set < *best_);
  }

  State With(const State& state, int count) const {
    State next = state;
    const size_t taken = next.first++;
    next.taken[taken] = count;
    next.decided.parts.Add({classes_[taken], count});
    (void)next.decided.Settle();
    next.need -= count;
    next.cost += count * state.adding[taken] +
                 int64_t{count} * (count - 1) * distances_.Between(taken, taken);
    for (size_t i = next.first; i < classes_.size(); ++i) {
      next.adding[i] += 2 * count * distances_.Between(taken, i);
    }
    return next;
  }

  // Exchanges single nodes of the best set as long as a closer accepted set results: bounds end a
  // search sooner the better the best set is.
  void ImproveBest() {
    while (budget_.Step() && ExchangeOne()) {
    }
  }

  // Whether an exchange has made the best set closer.
  bool ExchangeOne() {
    const NumaMask nodes = open_from_.front();
    const NumaInfo& numa = distances_.numa();
    const auto pair = [&numa](int a, int b) { return numa.Distance(a, b) + numa.Distance(b, a); };
    std::array<int64_t, NumaMask::kMaxNodes> costs;  // of a node with all others of the set
    for (const int node : nodes) {
      int64_t& cost = costs[static_cast<size_t>(node)] = 2 * numa.Distance(node, node);
      for (const int other : *best_ - NumaMask::Of(node)) cost += 2 * pair(node, other);
    }
    int checks = 0;
    for (const int out : *best_) {
      for (const int in : nodes - *best_) {
        const int64_t cost = costs[static_cast<size_t>(in)] - 2 * pair(in, out);
        if (cost >= costs[static_cast<size_t>(out)]) continue;
        constexpr int kChecksInAStep = 8;
        if (++checks % kChecksInAStep == 0 && !budget_.Step()) return false;
        const NumaMask exchanged = (*best_ - NumaMask::Of(out)) | NumaMask::Of(in);
        if (!search_.Accepts(exchanged)) continue;
        best_cost_ += cost - costs[static_cast<size_t>(out)];
        best_ = exchanged;
        return true;
      }
    }
    return false;
  }

  // `known`: an accepted set that agrees with the decisions before the last.
  void Descend(const State& state, std::optional<NumaMask> known) {
    if (!budget_.Step()) return;
    const SetFamily family = FamilyOf(state);
    if (!known || !family.Contains(*known)) known = search_.Any(family, budget_);
    if (!known) return;
    if (state.need == 0 || state.first + 1 == classes_.size()) {
      const auto found = search_.Lowest(family, budget_, known);
      if (!found) return;
      const int64_t cost = CostOf(*found);
      if (!IsBetter(cost, *found)) return;
      best_ = found;
      best_cost_ = cost;
      ImproveBest();
      return;
    }
    std::array<Child, NumaMask::kMaxNodes + 1> children;
    auto* end = children.begin();
    const int others = open_from_[state.first + 1].Count();
    const int most = std::min(state.need, most_[state.first]);
    for (int count = std::max(fewest_[state.first], state.need - others); count <= most; ++count) {
      const State next = With(state, count);
      const Child child{LeastCost(next), FamilyOf(next).Lowest(), count};
      if (IsBetter(child.cost, child.lowest)) *end++ = child;
    }
    std::sort(children.begin(), end, [](const Child& a, const Child& b) {
      return a.cost != b.cost ? a.cost < b.cost : a.lowest < b.lowest;
    });
    for (const auto* child = children.begin(); child != end; ++child) {
      if (IsBetter(child->cost, child->lowest)) Descend(With(state, child->count), known);
    }
  }

  const DistanceClasses& distances_;
  const std::vector<NumaMask>& classes_;
  MemberSearch& search_;
  SearchBudget& budget_;
  PricedBound priced_;
  bool has_prices_ = false;
  std::vector<Sums> costs_;                // of LeastCost
  std::vector<std::vector<Sums>> levels_;  // of NearestOthers, by the first class
  std::vector<NumaMask> open_from_;  // by index of a class: its nodes and those of later classes
  std::vector<int> fewest_;          // by class
  std::vector<int> most_;
  std::optional<NumaMask> best_;
  int64_t best_cost_ = 0;
};

}  // namespace

DistanceClasses::DistanceClasses(NumaMask nodes, const NumaInfo& numa) : numa_(numa) {
  const auto pair = [&numa](int a, int b) { return numa.Distance(a, b) + numa.Distance(b, a); };
  const auto are_alike = [&](int a, int b) {
    return numa.Distance(a, a) == numa.Distance(b, b) &&
           std::ranges::all_of(nodes.begin(), nodes.end(), [&](int third) {
             return third == a || third == b || pair(a, third) == pair(b, third);
           });
  };
  for (NumaMask rest = nodes; !rest.empty(); rest = rest - classes_.back()) {
    const int highest = rest.Highest();
    NumaMask alike;
    for (const int other : rest) {
      if (are_alike(highest, other)) alike.Add(other);
    }
    classes_.push_back(alike);
  }
  // A class that is near to all others decides most about the cost of the others.
  std::ranges::stable_sort(classes_, {}, [&](NumaMask alike) {
    int64_t sum = 0;
    for (const int other : nodes - alike) sum += pair(alike.Highest(), other);
    return sum;
  });
  between_.resize(classes_.size() * classes_.size());
  for (size_t a = 0; a < classes_.size(); ++a) {
    const int node = *classes_[a].begin();
    of_one_.push_back(numa.Distance(node, node));
    for (size_t b = 0; b < classes_.size(); ++b) {
      const int other = classes_[b].Highest();
      between_[a * classes_.size() + b] = node == other ? 0 : pair(node, other);
    }
  }
}

std::optional<NumaMask> ClosestSubset(const DistanceClasses& distances, int size,
                                      MemberSearch& search, SearchBudget& budget) {
  return ClosestSearch(distances, search, budget).Find(size);
}

}  // namespace alignd::topologymanager
