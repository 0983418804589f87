// Which sets satisfy all of several demands, as a problem to search. Private to the room.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/search/demand_table.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// Accepts the sets that, with the nodes `beside`, satisfy all demands, and that are preferred by
// each of `preferred_by`. For one choice of nodes: remembers what it found impossible.
class MemberProblem : public SubsetProblem {
 public:
  explicit MemberProblem(std::vector<const DemandTable*> demands, NumaMask beside = {},
                         std::vector<const DescribedHints*> preferred_by = {});

  bool Accepts(NumaMask set) override;
  bool IsPossible(const SetFamily& family) override;
  void NoteImpossible(const SetFamily& family) override;

  // The set of the family with the nodes that bring most of what is missing: a guess. The family
  // has one.
  NumaMask Guess(const SetFamily& family) const;

 private:
  using Shares = std::array<double, NumaMask::kMaxNodes>;

  // Of what each node of a family brings of what is missing the share of what is wanted, over all
  // demands. Returns how much is missing.
  double MissingShares(const SetFamily& family, Shares& shares) const;

  // Whether the best of the open nodes can bring all that is missing of all demands, each counted
  // by its share of what it wants: what demands that pull in opposite directions cannot.
  bool CanSatisfyTogether(const SetFamily& family) const;

  // All that matters of a family: nodes that are alike lead to equal keys.
  std::vector<uint64_t> KeyOf(const SetFamily& family) const;

  const std::vector<const DemandTable*> demands_;
  const NumaMask beside_;
  const std::vector<const DescribedHints*> preferred_by_;
  std::set<std::vector<uint64_t>> impossible_;
};

std::vector<const DemandTable*> DemandsOf(const SetTable& sets);

// A set that the hints prefer, that has all of `kept` and lies in `allowed`; nullopt if there is
// none or the budget is used up. `sets` are those of the hints.
std::optional<NumaMask> PreferredMember(const DescribedHints& hints, const SetTable& sets,
                                        NumaMask kept, NumaMask allowed, SearchBudget& budget);

// As in node_sets.h, for whoever wants to know whether the search gave up.
std::optional<NumaMask> NarrowestSet(const NodeSets& sets, NumaMask containing,
                                     SearchBudget& budget);
std::optional<int> FewestNodes(const NodeSets& sets, SearchBudget& budget);

}  // namespace alignd::topologymanager
