#include "alignd/topologymanager/hint_merger.h"

#include "core/topologymanager/candidates.h"

namespace alignd::topologymanager {

TopologyHint MergeHints(const NumaInfo& numa, const std::vector<HintList>& lists,
                        const MergeRules& rules) {
  const std::vector<TopologyHint> candidates = Candidates(numa.all(), lists, rules.as_1_20);
  if (candidates.empty()) return {numa.all(), false};
  const Judge judge(numa, rules, BestNonPreferredCount(lists));
  TopologyHint best = candidates.front();
  for (const TopologyHint& candidate : candidates) best = judge.Better(best, candidate);
  return best;
}

}  // namespace alignd::topologymanager
