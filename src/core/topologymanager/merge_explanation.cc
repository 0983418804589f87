#include "alignd/topologymanager/merge_explanation.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/dense_merge.h"
#include "core/topologymanager/merge_lists.h"

namespace alignd::topologymanager {
namespace {

constexpr char kSearchEnded[] =
    "the search for the best set ended at its limit: there may be a better one";

std::string NodeCount(int count) {
  return std::to_string(count) + (count == 1 ? " NUMA node" : " NUMA nodes");
}

// One decimal: distances are small integers.
std::string Tenths(double number) {
  const auto tenths = static_cast<int64_t>(number * 10 + 0.5);
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

// Why a candidate is not the best one.
class Comparison {
 public:
  Comparison(const NumaInfo& numa, const MergeRules& rules, int best_count,
             std::vector<NumaMask> preferred_intersections, const MaskText& mask_text)
      : numa_(numa),
        rules_(rules),
        best_count_(best_count),
        preferred_intersections_(std::move(preferred_intersections)),
        mask_text_(mask_text) {}

  std::string WhyNot(const TopologyHint& loser, const TopologyHint& best) const {
    if (best.preferred && !loser.preferred) return WhyNotPreferred(loser);
    const int loser_count = loser.affinity->Count();
    const int best_count = best.affinity->Count();
    if (loser_count == best_count) return TieBreak(*loser.affinity, *best.affinity);
    if (best.preferred || rules_.as_1_20) return More(loser_count, *best.affinity);
    return Misfit(loser_count, *best.affinity);
  }

 private:
  // A combination of preferred hints may have the same intersection, but with different masks.
  std::string WhyNotPreferred(const TopologyHint& loser) const {
    const bool by_preferred_hints = std::ranges::find(preferred_intersections_, *loser.affinity) !=
                                    preferred_intersections_.end();
    return by_preferred_hints ? "not preferred: the hints with this intersection are not equal"
                              : "not preferred: not all hints with this intersection are preferred";
  }

  std::string More(int count, NumaMask best) const {
    return NodeCount(count) + ", more than " + mask_text_(best) + " has";
  }

  // Neither is preferred: the best number of NUMA nodes is what some resource needs at least.
  std::string Misfit(int count, NumaMask best) const {
    const std::string needed = NodeCount(best_count_) + " that a resource needs at least";
    if (count > best_count_) return NodeCount(count) + ", more than the " + needed;
    return NodeCount(count) + ", fewer than the " + needed + "; " + mask_text_(best) +
           " is closer to that number";
  }

  std::string TieBreak(NumaMask loser, NumaMask best) const {
    const double loser_distance = numa_.AverageDistance(loser);
    const double best_distance = numa_.AverageDistance(best);
    if (rules_.prefer_closest && loser_distance != best_distance) {
      return "as many NUMA nodes, but farther apart than " + mask_text_(best) +
             " (average distance " + Tenths(loser_distance) + ", not " + Tenths(best_distance) +
             ")";
    }
    return "as good, but " + mask_text_(best) + " is lower";
  }

  const NumaInfo& numa_;
  const MergeRules rules_;
  const int best_count_;
  const std::vector<NumaMask> preferred_intersections_;
  const MaskText& mask_text_;
};

// Why the lists of a policy have nothing in common.
std::vector<std::string> WhyNoCandidate(const Policy& policy, const HintsByResource& hints) {
  std::vector<std::string> notes;
  for (const auto& [resource, list] : hints) {
    const std::vector<Hints> usable = policy.Lists({{{resource, list}}});
    if (!usable.front().empty()) continue;
    notes.push_back(resource + (list && list->empty()
                                    ? " fits nowhere"
                                    : " has no preferred hint for a single NUMA node"));
  }
  return notes;
}

MergeExplanation NoCandidate() {
  MergeExplanation explanation;
  explanation.notes.push_back("no combination of hints has a NUMA node in common");
  return explanation;
}

}  // namespace

MergeExplanation ExplainMerge(const NumaInfo& numa, const std::vector<Hints>& lists,
                              const MergeRules& rules, const MaskText& mask_text) {
  MergeExplanation explanation;
  const MergeLists merge(numa.all(), lists);
  if (merge.none || merge.common.empty()) return NoCandidate();
  if (merge.masked.empty()) {
    explanation.candidates.push_back({{numa.all(), merge.may_prefer}, "best"});
    return explanation;
  }
  if (merge.common.Count() > MergeLimits().table_nodes) {
    const Merged merged = MergeWithin({}, numa, lists, rules);
    explanation.candidates.push_back({merged.hint, "best"});
    explanation.notes.push_back("the resources have " + NodeCount(merge.common.Count()) +
                                " in common: only the best set is shown");
    if (!merged.hint.preferred) {
      explanation.notes.push_back("only sets that are enough for every resource are considered");
    }
    if (!merged.exact) explanation.notes.push_back(kSearchEnded);
    return explanation;
  }
  SearchBudget budget;
  const DenseMerge dense(merge, rules, budget);
  std::vector<TopologyHint> candidates = dense.Candidates();
  if (candidates.empty()) return NoCandidate();
  const int best_count = BestNonPreferredCount(merge, budget);
  const CandidateOrder order(numa, rules, best_count);
  std::ranges::sort(candidates, [&](const TopologyHint& a, const TopologyHint& b) {
    return order.IsBetter(a, b);
  });
  const size_t listed = std::min(candidates.size(), MergeExplanation::kMaxCandidates);
  explanation.left_out = candidates.size() - listed;
  const Comparison comparison(numa, rules, best_count, dense.PreferredIntersections(), mask_text);
  const TopologyHint best = candidates.front();
  for (size_t i = 0; i < listed; ++i) {
    explanation.candidates.push_back(
        {candidates[i], i == 0 ? "best" : comparison.WhyNot(candidates[i], best)});
  }
  if (budget.IsUsedUp()) explanation.notes.push_back(kSearchEnded);
  return explanation;
}

MergeExplanation ExplainMerge(const Policy& policy, const HintsByResource& hints,
                              const MaskText& mask_text) {
  MergeExplanation explanation =
      ExplainMerge(policy.numa(), policy.Lists({hints}), policy.rules(), mask_text);
  for (const auto& [resource, list] : hints) {
    if (list && !list->IsShownFully()) {
      explanation.notes.push_back("of the hints of " + resource + " only the " +
                                  std::to_string(Hints::kMaxShown) + " narrowest are shown");
    }
    if (list && !list->exact()) {
      explanation.notes.push_back("the search for the fewest NUMA nodes for " + resource +
                                  " ended at its limit: a narrower set may be preferred");
    }
  }
  if (explanation.candidates.empty()) {
    std::vector<std::string> why = WhyNoCandidate(policy, hints);
    if (!why.empty()) explanation.notes = std::move(why);
  } else if (policy.kind() == TopologyManagerPolicy::kSingleNumaNode) {
    explanation.notes.push_back("only preferred hints for one NUMA node are considered");
  }
  return explanation;
}

}  // namespace alignd::topologymanager
