#include "core/topologymanager/single_nodes.h"

#include <algorithm>
#include <utility>

#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/sets/member_search.h"

namespace alignd::topologymanager {
namespace {

// The nodes of the masks of one list.
struct NodesOfMasks {
  NumaMask in_some;  // common nodes that some mask has
  NumaMask alone;    // common nodes that some mask has, and no other common node
};

void AddMask(NumaMask mask, NodesOfMasks& nodes) {
  nodes.in_some = nodes.in_some | mask;
  if (mask.Count() == 1) nodes.alone = nodes.alone | mask;
}

// Of the sets that `described` prefers by their number of nodes. False if the budget is used up.
bool AddPreferredSets(const DescribedHints& described, NumaMask common, SearchBudget& budget,
                      NodesOfMasks& nodes) {
  const SetTable table(described.sets);
  MemberSearch search(DemandsOf(table));
  const NumaMask within = described.sets.within;
  const int others = described.preferred_nodes - 1;
  for (const int node : within& common) {
    const NumaMask chosen = NumaMask::Of(node);
    const auto exists = [&](NumaMask open) {
      return others <= open.Count() &&
             search.Any({chosen, {{open - chosen, others}}}, budget).has_value();
    };
    if (!nodes.in_some.Contains(node) && exists(within - chosen)) nodes.in_some.Add(node);
    if (nodes.in_some.Contains(node) && exists(within - common)) nodes.alone.Add(node);
    if (budget.IsUsedUp()) return false;
  }
  return true;
}

// All described sets. The largest of them has all nodes within.
void AddAllSets(const DescribedHints& described, NumaMask common, NodesOfMasks& nodes) {
  const NumaMask within = described.sets.within;
  nodes.in_some = nodes.in_some | (within & common);
  for (const int node : within& common) {
    if (described.sets.Contains(NumaMask::Of(node) | (within - common))) nodes.alone.Add(node);
  }
}

// nullopt if it takes a longer search to know.
std::optional<NodesOfMasks> NodesOf(const Hints& hints, NumaMask common, bool preferred,
                                    SearchBudget& budget) {
  const Choices choices = preferred ? PreferredChoices(hints) : AllChoices(hints);
  NodesOfMasks nodes;
  for (const NumaMask mask : choices.masks) AddMask(mask & common, nodes);
  if (choices.any) AddMask(common, nodes);
  if (choices.described == nullptr) return nodes;
  if (!preferred) {
    AddAllSets(*choices.described, common, nodes);
    return nodes;
  }
  if (!choices.described->groups.empty()) return std::nullopt;
  if (choices.described->preferred_nodes < 1) return std::nullopt;
  if (!AddPreferredSets(*choices.described, common, budget, nodes)) return std::nullopt;
  return nodes;
}

}  // namespace

NarrowestNode FindNarrowestNode(const NumaInfo& numa, const MergeLists& lists, bool preferred,
                                const MergeRules& rules) {
  constexpr int64_t kMaxSteps = 512;  // fewer take less time than tables
  SearchBudget budget(kMaxSteps);
  NumaMask in_all = lists.common;
  NumaMask alone;
  for (const Hints* hints : lists.masked) {
    const auto nodes = NodesOf(*hints, lists.common, preferred, budget);
    if (!nodes) return {};
    in_all = in_all & nodes->in_some;
    alone = alone | nodes->alone;
    if (in_all.empty()) return {.is_known = true, .best = std::nullopt};
  }
  const CandidateOrder order(numa, rules, 0);
  std::optional<TopologyHint> best;
  for (const int node : in_all) {
    const TopologyHint single{NumaMask::Of(node), preferred};
    if (!best || order.IsBetter(single, *best)) best = single;
  }
  if (!alone.Contains(*best->affinity)) return {};
  return {.is_known = true, .best = best};
}

}  // namespace alignd::topologymanager
