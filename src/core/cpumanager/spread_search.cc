#include "core/cpumanager/spread_search.h"

#include <algorithm>
#include <memory>
#include <utility>

namespace alignd::cpumanager {
namespace {

int64_t Square(int64_t number) { return number * number; }

}  // namespace

// The best sums for one number of full rounds. A sum of kNone or more means: no choice. Sums of up
// to 2^28 fit into 32 bits also if they are added to kNone; vector instructions compare four at a
// time.
template <typename Sum>
class SpreadSearch::Table {
 public:
  Table(const SpreadSearch& search, int full_rounds, size_t most)
      : nodes_(search.nodes_),
        turns_(search.turns_),
        most_(most),
        full_rounds_(full_rounds),
        best_(std::make_unique_for_overwrite<Sum[]>((nodes_.size() + 1) * (most + 1) * Width())) {
    std::fill_n(Row(nodes_.size(), 0), Width(), kNone);
    // More nodes than there are: read, but not filled below.
    for (size_t node = 0; node <= nodes_.size(); ++node) {
      const size_t count = nodes_.size() - node + 1;
      if (count <= most) std::fill_n(Row(node, count), Width(), kNone);
    }
    for (const bool passed_over : {false, true}) Row(nodes_.size(), 0)[At(0, passed_over)] = 0;
    for (size_t node = nodes_.size(); node-- > 0;) {
      // At most `node` nodes before this one are chosen, and at most all nodes after it.
      const size_t fewest = search.fewest_ > node ? search.fewest_ - node : 0;
      for (size_t count = fewest; count <= std::min(most, nodes_.size() - node); ++count) {
        Fill(node, count);
      }
    }
  }

  int64_t Least(size_t count) const {
    const Sum least = Row(0, count)[At(turns_.groups, false)];
    return least >= kNone ? kImpossible : int64_t{least};
  }

  std::vector<size_t> First(size_t count, int64_t bound) const {
    std::vector<size_t> chosen;
    // The smallest sums of the nodes decided so far, by the number of groups still to take.
    std::vector<Sum> so_far(Width(), kNone);
    so_far[At(turns_.groups, false)] = 0;
    for (size_t node = 0; chosen.size() < count; ++node) {
      std::vector<Sum> with = Choose(nodes_[node], so_far);
      if (CanEndWithin(bound, with, Row(node + 1, count - chosen.size() - 1))) {
        chosen.push_back(node);
        so_far = std::move(with);
      } else {
        for (Sum& sum : so_far) sum += SquareOf(nodes_[node].unchosen);
      }
    }
    return chosen;
  }

 private:
  static constexpr Sum kNone =
      sizeof(Sum) == sizeof(int64_t) ? static_cast<Sum>(kImpossible) : Sum{1} << 29;

  static Sum SquareOf(int64_t number) { return static_cast<Sum>(Square(number)); }

  size_t Groups() const { return static_cast<size_t>(turns_.groups) + 1; }
  size_t Width() const { return Groups() * 2; }

  // The index in a row for `groups` that are still to be taken. `passed_over`: in the round after
  // the full ones, a node with another group provided none, so no later node provides one.
  size_t At(int groups, bool passed_over) const {
    return (passed_over ? Groups() : 0) + static_cast<size_t>(groups);
  }

  // The sums of the nodes from `node` on, if `count` of them are chosen.
  const Sum* Row(size_t node, size_t count) const {
    return &best_[(node * (most_ + 1) + count) * Width()];
  }
  Sum* Row(size_t node, size_t count) { return &best_[(node * (most_ + 1) + count) * Width()]; }

  // Calls visit(groups taken, passed over after it) for all choices of a chosen node.
  template <typename Visit>
  void ForEachGift(const SpreadNode& node, bool passed_over, Visit visit) const {
    if (turns_.may_sit_out) visit(0, passed_over);
    const bool has_more = node.groups > full_rounds_;
    visit(std::min(node.groups, full_rounds_), passed_over || has_more);
    if (has_more && !passed_over) visit(full_rounds_ + 1, false);
  }

  Sum FreeSquare(const SpreadNode& node, int given) const {
    return SquareOf(int64_t{node.chosen} - int64_t{given} * turns_.group_cpus);
  }

  void Fill(size_t index, size_t count) {
    const SpreadNode& node = nodes_[index];
    Sum* best = Row(index, count);
    const Sum* without = Row(index + 1, count);
    const Sum unchosen = SquareOf(node.unchosen);
    Add(best, without, unchosen, Width());
    if (!node.can_be_chosen || count == 0) return;
    const Sum* with = Row(index + 1, count - 1);
    for (const bool passed_over : {false, true}) {
      ForEachGift(node, passed_over, [&](int given, bool then_passed_over) {
        if (given > turns_.groups) return;
        Sum* to = best + At(given, passed_over);
        TakeLess(to, with + At(0, then_passed_over), FreeSquare(node, given),
                 static_cast<size_t>(turns_.groups - given) + 1);
      });
    }
  }

  // A fixed number of sums at a time, for vector instructions.
  static constexpr size_t kAtATime = 8;

  // The rows do not overlap.
  static void Add(Sum* __restrict to, const Sum* __restrict from, Sum more, size_t count) {
    size_t i = 0;
    for (; i + kAtATime <= count; i += kAtATime) {
      for (size_t j = 0; j < kAtATime; ++j) to[i + j] = from[i + j] + more;
    }
    for (; i < count; ++i) to[i] = from[i] + more;
  }

  // The rows do not overlap.
  static void TakeLess(Sum* __restrict to, const Sum* __restrict from, Sum more, size_t count) {
    size_t i = 0;
    for (; i + kAtATime <= count; i += kAtATime) {
      for (size_t j = 0; j < kAtATime; ++j) {
        const Sum sum = from[i + j] + more;
        to[i + j] = sum < to[i + j] ? sum : to[i + j];
      }
    }
    for (; i < count; ++i) to[i] = std::min(to[i], static_cast<Sum>(from[i] + more));
  }

  // The sums `so_far`, and this node chosen.
  std::vector<Sum> Choose(const SpreadNode& node, const std::vector<Sum>& so_far) const {
    std::vector<Sum> with(so_far.size(), kNone);
    if (!node.can_be_chosen) return with;
    for (const bool passed_over : {false, true}) {
      ForEachGift(node, passed_over, [&](int given, bool then_passed_over) {
        for (int rest = 0; rest <= turns_.groups - given; ++rest) {
          Sum& sum = with[At(rest, then_passed_over)];
          const Sum from = so_far[At(rest + given, passed_over)];
          sum = std::min(sum, static_cast<Sum>(from + FreeSquare(node, given)));
        }
      });
    }
    return with;
  }

  bool CanEndWithin(int64_t bound, const std::vector<Sum>& so_far, const Sum* rest) const {
    for (size_t i = 0; i < Width(); ++i) {
      if (so_far[i] >= kNone || rest[i] >= kNone) continue;
      if (int64_t{so_far[i]} + int64_t{rest[i]} <= bound) return true;
    }
    return false;
  }

  const std::vector<SpreadNode>& nodes_;
  const SpreadTurns& turns_;
  const size_t most_;
  const int full_rounds_;
  const std::unique_ptr<Sum[]> best_;
};

template <typename Use>
void SpreadSearch::WithTable(int full, size_t most, Use use) const {
  int64_t largest = 0;
  for (const SpreadNode& node : nodes_) {
    largest += Square(std::max(int64_t{node.unchosen}, int64_t{node.chosen}));
  }
  constexpr int64_t kMaxIn32Bits = int64_t{1} << 28;
  if (largest < kMaxIn32Bits) {
    use(Table<int32_t>(*this, full, most));
  } else {
    use(Table<int64_t>(*this, full, most));
  }
}

SpreadSearch::SpreadSearch(std::vector<SpreadNode> nodes, SpreadTurns turns, size_t fewest,
                           size_t most)
    : nodes_(std::move(nodes)), turns_(turns), fewest_(fewest) {
  int most_groups = 0;
  for (const SpreadNode& node : nodes_) {
    if (node.can_be_chosen) most_groups = std::max(most_groups, node.groups);
  }
  // No node has more groups than this number of full rounds.
  for (int full = 0; full == 0 || full < std::min(most_groups, turns_.groups); ++full) {
    int64_t groups = 0;
    for (const SpreadNode& node : nodes_) {
      if (node.can_be_chosen) groups += std::min(node.groups, full + 1);
    }
    if (groups < turns_.groups) continue;
    // Every node that must provide a group does so in the full rounds.
    const bool all_give = full > 0 && !turns_.may_sit_out;
    const size_t givers = all_give ? std::min(most, static_cast<size_t>(turns_.groups)) : most;
    Rounds& rounds = rounds_.emplace_back(Rounds{.full = full, .least = {}});
    WithTable(full, givers, [&](const auto& table) {
      for (size_t count = 0; count <= givers; ++count) {
        rounds.least.push_back(count < fewest ? kImpossible : table.Least(count));
      }
    });
  }
}

int64_t SpreadSearch::Least(size_t count) const {
  int64_t least = kImpossible;
  for (const Rounds& rounds : rounds_) {
    if (count < rounds.least.size()) least = std::min(least, rounds.least[count]);
  }
  return least;
}

std::vector<size_t> SpreadSearch::First(size_t count, int64_t bound) const {
  std::vector<size_t> first;
  for (const Rounds& rounds : rounds_) {
    if (count >= rounds.least.size() || rounds.least[count] > bound) continue;
    std::vector<size_t> choice;
    WithTable(rounds.full, rounds.least.size() - 1,
              [&](const auto& table) { choice = table.First(count, bound); });
    if (first.empty() || choice < first) first = std::move(choice);
  }
  return first;
}

}  // namespace alignd::cpumanager
