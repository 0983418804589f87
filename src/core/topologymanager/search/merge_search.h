// The merge for machines with many NUMA nodes. Private to the module; the only header of this
// folder that other folders include.
#pragma once

#include <optional>

#include "alignd/topologymanager/hint_merger.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// The best hint of the merge, by trying sets in the order in which they would win. nullopt if there
// is none. If the budget is used up, the result is the best set found so far.
// Differs: a hint is preferred if all lists prefer the same set, with the rules of 1.20 as well;
// and of sets that are not preferred, only those count that are enough for every described list.
std::optional<TopologyHint> BestBySearch(const NumaInfo& numa, const MergeLists& lists,
                                         const MergeRules& rules, SearchBudget& budget);

// The best set that all lists prefer. nullopt if there is none, or if the budget is used up.
std::optional<TopologyHint> BestPreferredBySearch(const NumaInfo& numa, const MergeLists& lists,
                                                  const MergeRules& rules, SearchBudget& budget);

}  // namespace alignd::topologymanager
