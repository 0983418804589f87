// The best subset of a given size that a problem accepts, by depth-first search. Private to the
// room.
#pragma once

#include <cstdint>
#include <optional>

#include "alignd/base/numa_mask.h"
#include "alignd/topologymanager/node_sets.h"
#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

// How many steps searches may still make together.
class Effort {
 public:
  explicit Effort(int64_t steps = kMostSearchSteps) : left_(steps) {}

  // False once the steps are used up.
  bool Step() { return left_ > 0 && --left_ > 0; }
  bool IsUsedUp() const { return left_ <= 0; }

 private:
  int64_t left_;
};

class SubsetProblem {
 public:
  virtual ~SubsetProblem() = default;

  virtual bool Accepts(NumaMask set) = 0;
  // False only if no set is accepted that has all of `chosen` and exactly `need` of `open`.
  virtual bool IsPossible(NumaMask chosen, NumaMask open, int need) = 0;
  // Told when the search has found out that there is none.
  virtual void NoteImpossible(NumaMask /*chosen*/, NumaMask /*open*/, int /*need*/) {}
};

// The lowest accepted set that has all of `chosen` and `need` nodes of `open`, all of which lie
// apart from `chosen`. nullopt if there is none or the effort is used up.
std::optional<NumaMask> LowestSubset(NumaMask chosen, NumaMask open, int need,
                                     SubsetProblem& problem, Effort& effort);

// The accepted set of `size` of the nodes with the smallest average distance; the lowest of equally
// close ones. Once the effort is used up: the best so far.
std::optional<NumaMask> ClosestSubset(NumaMask nodes, int size, const NumaInfo& numa,
                                      SubsetProblem& problem, Effort& effort);

}  // namespace alignd::topologymanager
