#include "core/topologymanager/candidate_order.h"

#include <algorithm>

#include "core/topologymanager/sets/member_search.h"

namespace alignd::topologymanager {
namespace {

// `hints` have a mask.
int NarrowestCount(const Hints& hints, SearchBudget& budget) {
  int narrowest = 0;
  const auto note = [&](int count) {
    if (narrowest == 0 || count < narrowest) narrowest = count;
  };
  for (const TopologyHint& hint : hints.listed()) {
    if (hint.affinity) note(hint.affinity->Count());
  }
  if (hints.described() != nullptr) note(*FewestNodes(hints.described()->sets, budget));
  return narrowest;
}

}  // namespace

int BestNonPreferredCount(const MergeLists& lists, SearchBudget& budget) {
  int largest = 0;
  for (const Hints* hints : lists.masked) {
    largest = std::max(largest, NarrowestCount(*hints, budget));
  }
  return largest;
}

bool CandidateOrder::IsBetter(const TopologyHint& a, const TopologyHint& b) const {
  if (a.preferred != b.preferred) return a.preferred;
  const int rank_a = RankOfCount(a.affinity->Count(), a.preferred);
  const int rank_b = RankOfCount(b.affinity->Count(), b.preferred);
  if (rank_a != rank_b) return rank_a < rank_b;
  if (rules_.prefer_closest) {
    const int64_t sum_a = numa_.DistanceSum(*a.affinity);
    const int64_t sum_b = numa_.DistanceSum(*b.affinity);
    if (sum_a != sum_b) return sum_a < sum_b;
  }
  return *a.affinity < *b.affinity;
}

int CandidateOrder::RankOfCount(int count, bool preferred) const {
  if (preferred || rules_.as_1_20) return count;
  return count <= best_count_ ? best_count_ - count : NumaMask::kMaxNodes + count;
}

}  // namespace alignd::topologymanager
