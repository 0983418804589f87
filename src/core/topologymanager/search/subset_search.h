// The best subset of a given size that a problem accepts, by depth-first search. Private to the
// room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"
#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

// How many steps searches may still make together.
class SearchBudget {
 public:
  explicit SearchBudget(int64_t steps = kMaxSearchSteps) : left_(steps) {}

  // False once the steps are used up.
  bool Step() { return left_ > 0 && --left_ > 0; }
  bool IsUsedUp() const { return left_ <= 0; }

 private:
  int64_t left_;
};

// The sets that have all of `chosen` and, of each part, exactly `need` of its `open` nodes. Parts
// lie apart from each other and from what is chosen.
struct SetFamily {
  struct Part {
    NumaMask open;
    int need = 0;
  };

  NumaMask chosen;
  std::vector<Part> parts;

  NumaMask Open() const;  // of all parts
  int Need() const;
  // The lowest of the sets.
  NumaMask Lowest() const;
  // Chooses what is left without a choice. Afterwards, of each part some nodes are in a set and
  // some are not. False if there is no set.
  bool Settle();
};

class SubsetProblem {
 public:
  virtual ~SubsetProblem() = default;

  virtual bool Accepts(NumaMask set) = 0;
  // False only if no set of the family is accepted.
  virtual bool IsPossible(const SetFamily& family) = 0;
  // Applied when the search has found out that none is.
  virtual void NoteImpossible(const SetFamily& /*family*/) {}
};

// The lowest accepted set of the family. nullopt if there is none or the budget is used up.
std::optional<NumaMask> LowestSubset(SetFamily family, SubsetProblem& problem,
                                     SearchBudget& budget);

// The accepted set of `size` of the nodes with the smallest average distance; the lowest of equally
// close ones. Once the budget is used up: the best so far.
std::optional<NumaMask> ClosestSubset(NumaMask nodes, int size, const NumaInfo& numa,
                                      SubsetProblem& problem, SearchBudget& budget);

}  // namespace alignd::topologymanager
