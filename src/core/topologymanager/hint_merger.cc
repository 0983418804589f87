#include "alignd/topologymanager/hint_merger.h"

#include <algorithm>

#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/dense_merge.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/search/search_merge.h"

namespace alignd::topologymanager {
namespace {

template <typename Way>
std::optional<TopologyHint> BestBy(const Way& way, const NumaInfo& numa,
                                   const std::vector<Hints>& lists, const MergeRules& rules,
                                   SearchBudget& budget) {
  if (const auto best = way.BestPreferred(CandidateOrder(numa, rules, 0)))
    return TopologyHint{best, true};
  const CandidateOrder order(numa, rules, rules.as_1_20 ? 0 : BestNonPreferredCount(lists, budget));
  if (const auto best = way.BestNotPreferred(order)) return TopologyHint{best, false};
  return std::nullopt;
}

Merged MergeExactHints(const MergeLimits& limits, const NumaInfo& numa,
                       const std::vector<Hints>& lists, const MergeRules& rules) {
  const MergeLists merge(numa.all(), lists);
  const TopologyHint nothing{numa.all(), false};
  if (merge.none) return {nothing, true};
  if (merge.masked.empty()) return {{numa.all(), merge.may_prefer}, true};
  if (merge.common.empty()) return {nothing, true};
  const int nodes = merge.common.Count();
  const auto by_tables = [&] {
    SearchBudget budget(limits.search_steps);
    const auto best = BestBy(DenseMerge(merge, rules, budget), numa, lists, rules, budget);
    return Merged{best.value_or(nothing), !budget.IsUsedUp()};
  };
  if (nodes <= std::min(limits.dense_nodes, DenseMerge::kMaxNodes)) return by_tables();
  SearchBudget budget(limits.search_steps);
  const auto best = BestBy(SearchMerge(numa, merge, rules, budget), numa, lists, rules, budget);
  if (budget.IsUsedUp() && nodes <= std::min(limits.fallback_nodes, DenseMerge::kMaxNodes)) {
    return by_tables();
  }
  return {best.value_or(nothing), !budget.IsUsedUp()};
}

}  // namespace

Merged MergeWithin(const MergeLimits& limits, const NumaInfo& numa, const std::vector<Hints>& lists,
                   const MergeRules& rules) {
  Merged merged = MergeExactHints(limits, numa, lists, rules);
  merged.exact = merged.exact && std::ranges::all_of(lists, &Hints::exact);
  return merged;
}

TopologyHint MergeHints(const NumaInfo& numa, const std::vector<Hints>& lists,
                        const MergeRules& rules) {
  return MergeWithin({}, numa, lists, rules).hint;
}

}  // namespace alignd::topologymanager
