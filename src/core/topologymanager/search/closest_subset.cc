#include "core/topologymanager/search/closest_subset.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/topologymanager/search/node_parts.h"
#include "core/topologymanager/search/priced_bound.h"

namespace alignd::topologymanager {
namespace {

// Branch and bound over the number of nodes of each class in the set. All costs are doubled to stay
// integers: the cost of a set is twice the sum over its ordered pairs, a node with itself included.
class ClosestSearch {
 public:
  ClosestSearch(const DistanceClasses& distances, int size, MemberSearch& search,
                SearchBudget& budget)
      : distances_(distances),
        classes_(distances.classes()),
        size_(size),
        search_(search),
        budget_(budget),
        parts_(search.demands(), distances_.nodes()),
        priced_(parts_, classes_, size),

        nearest_(classes_.size()) {
    for (size_t of = 0; of < classes_.size(); ++of) {
      for (size_t to = 0; to < classes_.size(); ++to) {
        nearest_[of][to] = static_cast<uint8_t>(to);
      }
      std::sort(nearest_[of].begin(), nearest_[of].begin() + classes_.size(),
                [&](uint8_t a, uint8_t b) {
                  const int64_t to_a = distances_.Between(of, a);
                  const int64_t to_b = distances_.Between(of, b);
                  return to_a != to_b ? to_a < to_b : a < b;
                });
    }
  }

  std::optional<NumaMask> Find() {
    State root;
    for (size_t i = 0; i < classes_.size(); ++i) {
      root.fewest[i] = 0;
      root.most[i] = static_cast<uint8_t>(std::min(size_, classes_[i].Count()));
    }
    best_ = search_.Any(FamilyOf(root), budget_);
    if (!best_) return std::nullopt;
    best_cost_ = CostOf(*best_);
    ImproveBest();
    FindRanges(root);
    // With one order of decisions, some searches take a hundred times as long as with another.
    constexpr int64_t kShareOfFirst = 2;
    stop_at_ = budget_.available() - budget_.available() / kShareOfFirst;
    Descend(root, best_);
    if (budget_.available() > stop_at_) return best_;
    stop_at_ = 0;
    by_index_ = true;
    Descend(root, best_);
    return best_;
  }

 private:
  static constexpr size_t kMaxClasses = NumaMask::kMaxNodes;

  // Sets with a number of nodes of each class between these. A class is decided if they are equal.
  struct State {
    std::array<uint8_t, kMaxClasses> fewest;
    std::array<uint8_t, kMaxClasses> most;

    bool IsDecided(size_t i) const { return fewest[i] == most[i]; }
  };

  // Leaves only numbers of nodes with which the other classes can make up the size. False if there
  // are none.
  bool Settle(State& state) const {
    int fewest = 0;
    int most = 0;
    for (size_t i = 0; i < classes_.size(); ++i) {
      fewest += state.fewest[i];
      most += state.most[i];
    }
    if (fewest > size_ || most < size_) return false;
    for (size_t i = 0; i < classes_.size(); ++i) {
      const int of_others = fewest - state.fewest[i];
      const int at_least = size_ - (most - state.most[i]);
      state.most[i] = static_cast<uint8_t>(std::min<int>(state.most[i], size_ - of_others));
      state.fewest[i] = static_cast<uint8_t>(std::max<int>(state.fewest[i], at_least));
      fewest = of_others + state.fewest[i];
      most = size_ - at_least + state.most[i];
    }
    return true;
  }

  // What the numbers of nodes of each class add to the cost, at least. The pairs of two classes
  // that are not decided count half for each, with the nearest nodes that there can be.
  void FindCosts(const State& state) {
    int undecided = size_;
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (state.IsDecided(i)) undecided -= state.fewest[i];
    }
    for (size_t i = 0; i < classes_.size(); ++i) {
      int64_t decided = 0;
      for (size_t j = 0; j < classes_.size(); ++j) {
        if (j != i && state.IsDecided(j)) decided += state.fewest[j] * distances_.Between(i, j);
      }
      const int64_t of_one = 2 * distances_.OfOne(i);
      const int64_t pair = distances_.Between(i, i);
      Costs& costs = costs_[i];
      if (state.IsDecided(i)) {
        const int64_t count = state.fewest[i];
        costs[static_cast<size_t>(count)] = count * (of_one + (count - 1) * pair + decided);
        continue;
      }
      // With more nodes of this class, fewer of the others: the nearest ones stay.
      int64_t others = 0;
      int needed = undecided - state.most[i];
      for (const size_t j : Nearest(i)) {
        if (j == i || state.IsDecided(j)) continue;
        others += state.fewest[j] * distances_.Between(i, j);
        needed -= state.fewest[j];
      }
      int count = state.most[i];
      const auto set = [&] {
        costs[static_cast<size_t>(count)] =
            count * (of_one + 2 * decided + (count - 1) * pair + others);
      };
      if (needed <= 0) set();
      // A settled state needs no fewer nodes than the fewest of the others.
      for (const size_t j : Nearest(i)) {
        if (j == i || state.IsDecided(j)) continue;
        for (int more = state.most[j] - state.fewest[j]; more > 0; --more) {
          others += distances_.Between(i, j);
          if (--needed > 0) continue;
          if (needed < 0) --count;
          if (count < state.fewest[i]) break;
          set();
        }
      }
    }
  }

  std::span<const uint8_t> Nearest(size_t of) const {
    return {nearest_[of].data(), classes_.size()};
  }

  // Leaves only numbers of nodes with which a set may be better than the best one. False if there
  // are none.
  bool Narrow(State& state) {
    constexpr int kMaxRounds = 6;
    for (int round = 0; round < kMaxRounds; ++round) {
      if (!Settle(state)) return false;
      FindCosts(state);
      constexpr int kMoves = 2;
      constexpr int kFirstMoves = 48;  // no prices are known yet
      int64_t bounds = 0;
      const PricedBound::Family family{
          .fewest = state.fewest.data(), .most = state.most.data(), .costs = costs_.data()};
      const int64_t cost = priced_.AtLeast(
          family,

          best_cost_ + 1, std::exchange(has_prices_, true) ? kMoves : kFirstMoves, bounds);
      UseBounds(bounds + 1);
      if (!MayBeBetter(cost, state)) return false;
      priced_.FindByCount(family);
      bool changed = false;
      for (size_t i = 0; i < classes_.size(); ++i) {
        if (state.IsDecided(i)) continue;
        while (!MayBeBetter(priced_.ByCount(i, state.fewest[i]), state)) {
          changed = true;
          if (state.fewest[i]++ == state.most[i]) return false;
        }
        while (!MayBeBetter(priced_.ByCount(i, state.most[i]), state)) {
          changed = true;
          if (state.most[i]-- == state.fewest[i]) return false;
        }
      }
      if (!changed) break;
    }
    return true;
  }

  void UseBounds(int64_t bounds) {
    // The time of a bound grows with the number of classes.
    constexpr int64_t kInAStep = 64;
    used_ += bounds * static_cast<int64_t>(classes_.size());
    (void)budget_.Step(used_ / kInAStep);
    used_ %= kInAStep;
  }

  // Of an accepted set.
  int64_t CostOf(NumaMask set) const { return 2 * distances_.numa().DistanceSum(set); }

  // An accepted set has between `fewest` and `most` nodes of a class.
  void FindRanges(State& state) {
    std::optional<NumaMask> known = best_;
    for (size_t i = 0; i < classes_.size(); ++i) {
      const NumaMask others = distances_.nodes() - classes_[i];
      const auto is_possible = [&](int count) {
        const SetFamily family{{}, {{classes_[i], count}, {others, size_ - count}}};
        if (known && family.Contains(*known)) return true;
        constexpr int64_t kMaxSteps = 48;  // most answers take a few
        SearchBudget budget(std::min(kMaxSteps, budget_.available()));
        const int64_t before = budget.available();
        const auto found = search_.Any(family, budget);
        budget_.Use(before - budget.available());
        if (found) known = found;
        return found || budget.IsUsedUp();
      };
      while (state.fewest[i] < state.most[i] && !is_possible(state.fewest[i])) ++state.fewest[i];
      while (state.fewest[i] < state.most[i] && !is_possible(state.most[i])) --state.most[i];
    }
  }

  // The sets of the state, and some more: it does not know the ranges.
  SetFamily FamilyOf(const State& state) const {
    SetFamily family;
    NumaMask open;
    int need = size_;
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (!state.IsDecided(i)) {
        open = open | classes_[i];
        continue;
      }
      family.parts.Add({classes_[i], state.fewest[i]});
      need -= state.fewest[i];
    }
    family.parts.Add({open, need});
    (void)family.Settle();
    return family;
  }

  bool MayBeBetter(int64_t cost, const State& state) const {
    if (cost != best_cost_) return cost < best_cost_;
    return FamilyOf(state).Lowest() < *best_;
  }

  // Exchanges single nodes of the best set as long as a closer accepted set results: bounds end a
  // search sooner the better the best set is.
  void ImproveBest() {
    while (budget_.Step() && ExchangeOne()) {
    }
  }

  // Whether an exchange has made the best set closer.
  bool ExchangeOne() {
    const NumaMask nodes = distances_.nodes();
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

  // An accepted set of the family, or nullopt. Sets `undecided` if that took too many steps.
  std::optional<NumaMask> AnyInFew(const SetFamily& family, bool& undecided) {
    constexpr int64_t kMaxSteps = 8;
    const int64_t steps = std::min(kMaxSteps, budget_.available());
    SearchBudget few(steps);
    const auto found = search_.Any(family, few);
    budget_.Use(steps - few.available());
    undecided = !found && few.IsUsedUp();
    return found;
  }

  // The class to decide about next: the one that is farthest from the others that are not decided,
  // or the first of them.
  // The number of classes if all are decided.
  size_t NextClass(const State& state) const {
    size_t next = classes_.size();
    int64_t farthest = -1;
    for (size_t i = 0; i < classes_.size(); ++i) {
      if (state.IsDecided(i)) continue;
      int64_t sum = 0;
      for (size_t j = 0; j < classes_.size(); ++j) {
        if (j != i && !state.IsDecided(j)) sum += distances_.Between(i, j);
      }
      if (by_index_) return i;
      if (sum <= farthest) continue;
      farthest = sum;
      next = i;
    }
    return next;
  }

  // `known`: an accepted set.
  void Descend(State state, std::optional<NumaMask> known) {
    if (!budget_.Step() || budget_.available() <= stop_at_ || !Narrow(state)) return;
    const SetFamily family = FamilyOf(state);
    const size_t next = NextClass(state);
    const bool is_known = known && family.Contains(*known);
    if (next == classes_.size()) {
      const int64_t cost = 2 * distances_.numa().DistanceSum(family.Lowest());
      if (cost > best_cost_) return;
      const auto found = search_.Lowest(family, budget_, is_known ? known : std::nullopt,
                                        cost == best_cost_ ? best_ : std::nullopt);
      if (!found || (cost == best_cost_ && !(*found < *best_))) return;
      best_ = found;
      best_cost_ = cost;
      ImproveBest();
      return;
    }
    if (!is_known) {
      bool undecided = false;
      known = AnyInFew(family, undecided);
      if (!known && !undecided) return;
    }
    std::array<std::pair<int64_t, uint8_t>, NumaMask::kMaxNodes + 1> children;
    auto* end = children.begin();
    for (uint8_t count = state.fewest[next]; count <= state.most[next]; ++count) {
      *end++ = {priced_.ByCount(next, count), count};
    }
    std::sort(children.begin(), end);
    for (const auto* child = children.begin(); child != end; ++child) {
      State with = state;
      with.fewest[next] = with.most[next] = child->second;
      if (MayBeBetter(child->first, with)) Descend(with, known);
    }
  }

  const DistanceClasses& distances_;
  const std::vector<NumaMask>& classes_;
  const int size_;
  MemberSearch& search_;
  SearchBudget& budget_;
  const NodeParts parts_;
  PricedBound priced_;
  bool has_prices_ = false;
  bool by_index_ = false;  // see NextClass
  int64_t stop_at_ = 0;    // steps of the budget that are not for this order
  int64_t used_ = 0;       // of the next step
  using Costs = PricedBound::CostsByCount;
  std::array<Costs, kMaxClasses> costs_;                   // of FindCosts
  std::vector<std::array<uint8_t, kMaxClasses>> nearest_;  // by class: all, the nearest first
  std::optional<NumaMask> best_;
  int64_t best_cost_ = 0;
};

}  // namespace

DistanceClasses::DistanceClasses(NumaMask nodes, const NumaInfo& numa)
    : numa_(numa), nodes_(nodes) {
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
  return ClosestSearch(distances, size, search, budget).Find();
}

}  // namespace alignd::topologymanager
