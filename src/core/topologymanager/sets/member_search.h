// The search for sets that satisfy several demands. Private to the module.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/subset_search.h"

namespace alignd::topologymanager {

// Accepts the sets that satisfy all demands and that each of `preferred_by` prefers. Remembers
// which families are impossible, so it serves searches among the same nodes.
class MemberProblem : public SubsetProblem {
 public:
  // The demands and hints outlive the problem.
  explicit MemberProblem(std::vector<const DemandTable*> demands,
                         std::vector<const DescribedHints*> preferred_by = {});

  bool Accepts(NumaMask set) override;
  bool IsPossible(const SetFamily& family) override;
  void NoteImpossible(const SetFamily& family) override;

  // The set of the family whose nodes add most of what is missing. It may not be accepted. The
  // family is not empty.
  NumaMask Guess(const SetFamily& family) const;

 private:
  using Shares = std::array<double, NumaMask::kMaxNodes>;

  // For each open node: what it adds, as a share of what is wanted, summed over all demands.
  // Returns the share that is missing.
  double MissingShares(const SetFamily& family, Shares& shares) const;

  // Whether the best open nodes can add all that is missing, summed over all demands. Finds demands
  // that exclude each other.
  bool CanSatisfyTogether(const SetFamily& family) const;

  // What a family's possibility depends on. Nodes that are alike lead to equal keys.
  std::vector<uint64_t> KeyOf(const SetFamily& family) const;

  const std::vector<const DemandTable*> demands_;
  const std::vector<const DescribedHints*> preferred_by_;
  std::set<std::vector<uint64_t>> impossible_;
};

std::vector<const DemandTable*> DemandsOf(const SetTable& sets);

// A set that the hints prefer, that has all of `kept` and lies in `allowed`; nullopt if there is
// none or the budget is used up. `sets` are those of the hints.
std::optional<NumaMask> PreferredMember(const DescribedHints& hints, const SetTable& sets,
                                        NumaMask kept, NumaMask allowed, SearchBudget& budget);

// As in node_sets.h, with the caller's budget.
std::optional<NumaMask> NarrowestSet(const NodeSets& sets, NumaMask containing,
                                     SearchBudget& budget);
std::optional<int> FewestNodes(const NodeSets& sets, SearchBudget& budget);

}  // namespace alignd::topologymanager
