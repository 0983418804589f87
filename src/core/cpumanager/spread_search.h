// Who of many nodes takes part in a distribution, so that what is left free is balanced: the search
// behind FindNumaSpread, on sums of squares.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace alignd::cpumanager {

// One node's choices. It is left with `unchosen` CPUs if it is not chosen, with `chosen` CPUs if it
// is, and with `group` CPUs fewer for each group that it then gives in turn, `groups` at most.
struct SpreadNode {
  bool can_be_chosen = false;
  int unchosen = 0;
  int chosen = 0;
  int groups = 0;
};

// What the chosen nodes give together, group by group, in turn: round after round in the order of
// the nodes, until `groups` groups are given; who has no group left misses its turn.
struct SpreadTurns {
  int groups = 0;
  int group_cpus = 1;
  // Whether a chosen node may stay out of all rounds.
  bool may_sit_out = false;
};

// Every choice of nodes in which all turns can be taken, without walking through them. Whoever
// gives in turn gives either in all of the first `n` full rounds, or in one more, and those that
// give one more come first. So for each n the nodes can be decided about one by one, from the last
// to the first, and of all decisions about the later ones only the best is kept for each (nodes
// still to choose, groups still to give, whether somebody was already passed over in round n + 1).
// Costs, for N nodes, N² · turns.groups steps for each n that is possible; there are seldom more
// than two.
class SpreadSearch {
 public:
  static constexpr int64_t kImpossible = INT64_MAX / 4;

  // Considers choices of `fewest` to `most` nodes. Nodes that cannot sit out have a group to give.
  SpreadSearch(std::vector<SpreadNode> nodes, SpreadTurns turns, size_t fewest, size_t most);

  // The smallest possible sum of the squares of what all nodes are left with, if `count` nodes are
  // chosen; kImpossible if there is no such choice.
  int64_t Least(size_t count) const;

  // The first choice of `count` nodes, in lexical order, with which that sum is no larger than
  // `bound`, which is at least Least(count). Ascending.
  std::vector<size_t> First(size_t count, int64_t bound) const;

 private:
  class Table;
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
