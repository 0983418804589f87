// The search for sets that satisfy several demands. Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/relaxation.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// Accepts the sets that satisfy all demands and that each of `preferred_by` prefers. Branch and
// bound: each step compares one bound. It allocates memory only when it is constructed.
class MemberSearch {
 public:
  // The demands and hints outlive the search.
  explicit MemberSearch(std::vector<const DemandTable*> demands,
                        std::vector<const DescribedHints*> preferred_by = {});

  bool Accepts(NumaMask set) const;
  const std::vector<const DemandTable*>& demands() const { return demands_; }

  // Some accepted set of the family. nullopt if there is none, or if the budget is used up.
  std::optional<NumaMask> Any(SetFamily family, SearchBudget& budget);

  // The lowest accepted set of the family. nullopt if there is none. If the budget is used up:
  // some accepted set, or nullopt. `known`: an accepted set of the family, if the caller has one.
  // `below`: looks for lower sets only, and returns nullopt or any set if none is lower.
  std::optional<NumaMask> Lowest(SetFamily family, SearchBudget& budget,
                                 std::optional<NumaMask> known = std::nullopt,
                                 std::optional<NumaMask> below = std::nullopt);

  // A set of the family that has much of what is missing. It may not be accepted. The family is
  // not empty.
  NumaMask Guess(SetFamily family);

 private:
  // Leaves only the nodes that an accepted set of the family can have. False if there is none.
  bool Restrict(SetFamily& family) const;
  // `family` is settled.
  std::optional<NumaMask> Descend(SetFamily family, int evaluations, SearchBudget& budget);
  // The same, after a decision about the groups from `first` on that the set does not touch.
  std::optional<NumaMask> AnyByGroups(const DescribedHints& hints, const SetFamily& family,
                                      size_t first, SearchBudget& budget);
  // An accepted set with a lower node instead of `node`, which is open in the part.
  std::optional<NumaMask> Lower(NumaMask set, int node, const SetFamily::Part& part) const;
  // The open nodes of the part that are like the node for all demands and preferences.
  NumaMask AlikeIn(const SetFamily::Part& part, int node) const;
  bool AreAlike(int a, int b) const;

  const std::vector<const DemandTable*> demands_;
  const std::vector<const DescribedHints*> preferred_by_;
  Relaxation relaxation_;
};

std::vector<const DemandTable*> DemandsOf(const SetTable& sets);

// How many of the groups have a node of the set.
int Touched(const std::vector<NumaMask>& groups, NumaMask set);

// The largest set that the hints describe and prefer because of its groups, that has all of `kept`
// and lies in `allowed`; nullopt if there is none or the budget is used up. `sets` are those of the
// hints.
std::optional<NumaMask> MemberTouching(const DescribedHints& hints, const SetTable& sets,
                                       NumaMask kept, NumaMask allowed, SearchBudget& budget);

// As in node_sets.h, with the caller's budget.
std::optional<NumaMask> NarrowestSet(const NodeSets& sets, NumaMask containing,
                                     SearchBudget& budget);
std::optional<int> FewestNodes(const NodeSets& sets, SearchBudget& budget);

}  // namespace alignd::topologymanager
