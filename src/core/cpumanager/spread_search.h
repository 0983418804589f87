// The choice of nodes for a distribution that keeps the free CPUs balanced: the search behind
// FindNumaSpread, on sums of squares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace alignd::cpumanager {

// The choices for one node. Its free CPUs afterwards are `unchosen` if it is not chosen, `chosen`
// if it is, and `group` fewer for each group that it then provides in turn, at most `groups`.
struct SpreadNode {
  bool can_be_chosen = false;
  int unchosen = 0;
  int chosen = 0;
  int groups = 0;
};

// The groups that the chosen nodes provide in turn: round after round in the order of the nodes,
// until `groups` groups are taken. A node without a free group is skipped.
struct SpreadTurns {
  int groups = 0;
  int group_cpus = 1;
  // Whether a chosen node may provide no group.
  bool may_sit_out = false;
};

// Covers every choice of nodes in which all turns can be taken, without enumerating the choices. A
// node provides a group in all of the first `n` full rounds, or in one more; nodes with one more
// come first. So for each n the nodes are decided one by one, from the last to the first. Of all
// decisions about the later nodes only the best is kept for each combination of: nodes still to
// choose, groups still to take, and whether a node was already skipped in round n + 1.
// Costs, for N nodes, N² · turns.groups steps for each possible n; there are seldom more than two.
class SpreadSearch {
 public:
  static constexpr int64_t kImpossible = INT64_MAX / 4;

  // Considers choices of `fewest` to `most` nodes. Nodes that must provide a group have one.
  SpreadSearch(std::vector<SpreadNode> nodes, SpreadTurns turns, size_t fewest, size_t most);

  // The smallest possible sum of the squares of the free CPUs of all nodes afterwards, if `count`
  // nodes are chosen; kImpossible if there is no such choice.
  int64_t Least(size_t count) const;

  // The first choice of `count` nodes, in lexical order, with which that sum is no larger than
  // `bound`, which is at least Least(count). Ascending.
  std::vector<size_t> First(size_t count, int64_t bound) const;

 private:
  template <typename Sum>
  class Table;
  // Calls use(table).
  template <typename Use>
  void WithTable(int full, size_t most, Use use) const;
  struct Rounds {
    int full = 0;
    std::vector<int64_t> least;  // by number of chosen nodes
  };

  std::vector<SpreadNode> nodes_;
  SpreadTurns turns_;
  size_t fewest_;
  std::vector<Rounds> rounds_;  // the possible ones
};

}  // namespace alignd::cpumanager
