#include "alignd/topologymanager/hint_merger.h"

#include <algorithm>

#include "core/topologymanager/dense_merge.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/search/merge_search.h"

namespace alignd::topologymanager {

Merged MergeWithin(const MergeLimits& limits, const NumaInfo& numa, const std::vector<Hints>& lists,
                   const MergeRules& rules) {
  const MergeLists merge(numa.all(), lists);
  const bool exact = std::ranges::all_of(lists, &Hints::exact);
  const TopologyHint nothing{numa.all(), false};
  if (merge.none) return {nothing, exact};
  if (merge.masked.empty()) return {{numa.all(), merge.may_prefer}, exact};
  if (merge.common.empty()) return {nothing, exact};
  SearchBudget budget(limits.search_steps);
  const bool by_tables =
      merge.common.Count() <= std::min(limits.table_nodes, DenseMerge::kMaxNodes);
  const std::optional<TopologyHint> best = by_tables ? DenseMerge(merge, rules, budget).Best(numa)
                                                     : BestBySearch(numa, merge, rules, budget);
  return {best.value_or(nothing), exact && !budget.IsUsedUp()};
}

TopologyHint MergeHints(const NumaInfo& numa, const std::vector<Hints>& lists,
                        const MergeRules& rules) {
  return MergeWithin({}, numa, lists, rules).hint;
}

}  // namespace alignd::topologymanager
