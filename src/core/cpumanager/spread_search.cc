#include "core/cpumanager/spread_search.h"

#include <algorithm>
#include <utility>

namespace alignd::cpumanager {
namespace {

int64_t Square(int64_t number) { return number * number; }

}  // namespace

// The best sums for one number of full rounds. A sum of kImpossible or more means: no choice.
class SpreadSearch::Table {
 public:
  Table(const SpreadSearch& search, int full_rounds, size_t most)
      : nodes_(search.nodes_),
        turns_(search.turns_),
        most_(most),
        full_rounds_(full_rounds),
        best_((nodes_.size() + 1) * (most + 1) * Width(), kImpossible) {
    for (const bool passed_over : {false, true}) Row(nodes_.size(), 0)[At(0, passed_over)] = 0;
    for (size_t node = nodes_.size(); node-- > 0;) {
      // At most `node` nodes before this one are chosen, and at most all nodes after it.
      const size_t fewest = search.fewest_ > node ? search.fewest_ - node : 0;
      for (size_t count = fewest; count <= std::min(most, nodes_.size() - node); ++count) {
        Fill(node, count);
      }
    }
  }

  int64_t Least(size_t count) const { return Row(0, count)[At(turns_.groups, false)]; }

  std::vector<size_t> First(size_t count, int64_t bound) const {
    std::vector<size_t> chosen;
    // The smallest sums of the nodes decided so far, by the number of groups still to take.
    std::vector<int64_t> so_far(Width(), kImpossible);
    so_far[At(turns_.groups, false)] = 0;
    for (size_t node = 0; chosen.size() < count; ++node) {
      std::vector<int64_t> with = Choose(nodes_[node], so_far);
      if (CanEndWithin(bound, with, Row(node + 1, count - chosen.size() - 1))) {
        chosen.push_back(node);
        so_far = std::move(with);
      } else {
        for (int64_t& sum : so_far) sum += Square(nodes_[node].unchosen);
      }
    }
    return chosen;
  }

 private:
  size_t Groups() const { return static_cast<size_t>(turns_.groups) + 1; }
  size_t Width() const { return Groups() * 2; }

  // The index in a row for `groups` that are still to be taken. `passed_over`: in the round after
  // the full ones, a node with another group provided none, so no later node provides one.
  size_t At(int groups, bool passed_over) const {
    return (passed_over ? Groups() : 0) + static_cast<size_t>(groups);
  }

  // The sums of the nodes from `node` on, if `count` of them are chosen.
  const int64_t* Row(size_t node, size_t count) const {
    return &best_[(node * (most_ + 1) + count) * Width()];
  }
  int64_t* Row(size_t node, size_t count) { return &best_[(node * (most_ + 1) + count) * Width()]; }

  // Calls visit(groups taken, passed over after it) for all choices of a chosen node.
  template <typename Visit>
  void ForEachGift(const SpreadNode& node, bool passed_over, Visit visit) const {
    if (turns_.may_sit_out) visit(0, passed_over);
    const bool has_more = node.groups > full_rounds_;
    visit(std::min(node.groups, full_rounds_), passed_over || has_more);
    if (has_more && !passed_over) visit(full_rounds_ + 1, false);
  }

  int64_t FreeSquare(const SpreadNode& node, int given) const {
    return Square(int64_t{node.chosen} - int64_t{given} * turns_.group_cpus);
  }

  void Fill(size_t index, size_t count) {
    const SpreadNode& node = nodes_[index];
    int64_t* best = Row(index, count);
    const int64_t* without = Row(index + 1, count);
    for (size_t i = 0; i < Width(); ++i) best[i] = without[i] + Square(node.unchosen);
    if (!node.can_be_chosen || count == 0) return;
    const int64_t* with = Row(index + 1, count - 1);
    for (const bool passed_over : {false, true}) {
      ForEachGift(node, passed_over, [&](int given, bool then_passed_over) {
        const int64_t square = FreeSquare(node, given);
        int64_t* to = best + At(0, passed_over);
        const int64_t* from = with + At(0, then_passed_over);
        for (int rest = 0; rest <= turns_.groups - given; ++rest) {
          to[rest + given] = std::min(to[rest + given], from[rest] + square);
        }
      });
    }
  }

  // The sums `so_far`, and this node chosen.
  std::vector<int64_t> Choose(const SpreadNode& node, const std::vector<int64_t>& so_far) const {
    std::vector<int64_t> with(so_far.size(), kImpossible);
    if (!node.can_be_chosen) return with;
    for (const bool passed_over : {false, true}) {
      ForEachGift(node, passed_over, [&](int given, bool then_passed_over) {
        for (int rest = 0; rest <= turns_.groups - given; ++rest) {
          int64_t& sum = with[At(rest, then_passed_over)];
          sum = std::min(sum, so_far[At(rest + given, passed_over)] + FreeSquare(node, given));
        }
      });
    }
    return with;
  }

  bool CanEndWithin(int64_t bound, const std::vector<int64_t>& so_far, const int64_t* rest) const {
    for (size_t i = 0; i < Width(); ++i) {
      if (so_far[i] + rest[i] <= bound) return true;
    }
    return false;
  }

  const std::vector<SpreadNode>& nodes_;
  const SpreadTurns& turns_;
  const size_t most_;
  const int full_rounds_;
  std::vector<int64_t> best_;
};

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
    const Table table(*this, full, givers);
    Rounds& rounds = rounds_.emplace_back(Rounds{.full = full, .least = {}});
    for (size_t count = 0; count <= givers; ++count) {
      rounds.least.push_back(count < fewest ? kImpossible : table.Least(count));
    }
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
    const Table table(*this, rounds.full, rounds.least.size() - 1);
    std::vector<size_t> choice = table.First(count, bound);
    if (first.empty() || choice < first) first = std::move(choice);
  }
  return first;
}

}  // namespace alignd::cpumanager
