// The lowest set of a family that a problem accepts, by depth-first search. Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"

namespace alignd::topologymanager {

// The number of steps that searches may still make. Searches that share a budget share its steps.
class SearchBudget {
 public:
  explicit SearchBudget(int64_t steps = kMaxSearchSteps) : steps_(steps) {}

  // False once the steps are used up.
  bool Step() { return steps_ > 0 && --steps_ > 0; }
  bool IsUsedUp() const { return steps_ <= 0; }

 private:
  int64_t steps_;
};

// The sets that have all nodes of `chosen` and, of each part, exactly `need` of its `open` nodes.
// Parts do not overlap with each other or with `chosen`.
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
  // Chooses the nodes that every set of the family has. Afterwards each part has a real choice.
  // False if the family is empty.
  bool Settle();
};

class SubsetProblem {
 public:
  virtual ~SubsetProblem() = default;

  virtual bool Accepts(NumaMask set) = 0;
  // False only if no set of the family is accepted.
  virtual bool IsPossible(const SetFamily& family) = 0;
  // Called when the search has found that no set of the family is accepted.
  virtual void NoteImpossible(const SetFamily& /*family*/) {}
};

// The lowest accepted set of the family. nullopt if there is none or the budget is used up.
std::optional<NumaMask> LowestSubset(SetFamily family, SubsetProblem& problem,
                                     SearchBudget& budget);

}  // namespace alignd::topologymanager
