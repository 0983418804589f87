// Which sets satisfy all of several demands, as a problem to search. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/demand_table.h"
#include "core/topologymanager/subset_search.h"

namespace alignd::topologymanager {

// Accepts the sets that, with the nodes `beside`, satisfy all demands, and that are preferred by
// each of `preferred_by`. For one choice of nodes: remembers what it found impossible.
class MemberProblem : public SubsetProblem {
 public:
  explicit MemberProblem(std::vector<const DemandTable*> demands, NumaMask beside = {},
                         std::vector<const DescribedHints*> preferred_by = {});

  bool Accepts(NumaMask set) override;
  bool IsPossible(NumaMask chosen, NumaMask open, int need) override;
  void NoteImpossible(NumaMask chosen, NumaMask open, int need) override;

 private:
  // Whether the best `need` of the open nodes can bring all that is missing of all demands, each
  // counted by its share of what it wants: what demands that pull in opposite directions cannot.
  bool CanSatisfyTogether(NumaMask chosen, NumaMask open, int need) const;

  // All that matters of a choice: nodes that are alike lead to equal keys.
  std::vector<uint64_t> KeyOf(NumaMask chosen, NumaMask open, int need) const;

  const std::vector<const DemandTable*> demands_;
  const NumaMask beside_;
  const std::vector<const DescribedHints*> preferred_by_;
  NumaMask distinct_nodes_;  // of which it matters which are chosen, not only what they hold
  std::set<std::vector<uint64_t>> impossible_;
};

std::vector<const DemandTable*> DemandsOf(const SetTable& sets);

// As in node_sets.h, for whoever wants to know whether the search gave up.
std::optional<NumaMask> NarrowestSet(const NodeSets& sets, NumaMask containing, Effort& effort);
std::optional<int> FewestNodes(const NodeSets& sets, Effort& effort);

}  // namespace alignd::topologymanager
