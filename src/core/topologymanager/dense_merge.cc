#include "core/topologymanager/dense_merge.h"

#include <algorithm>
#include <bit>

#include "alignd/base/saturating_sum.h"
#include "core/topologymanager/sets/member_search.h"

namespace alignd::topologymanager {
namespace {

using Table = std::vector<uint8_t>;

// For each set: the number of sets in the table that contain it.
std::vector<uint64_t> CountSupersets(const Table& table) {
  std::vector<uint64_t> counts(table.begin(), table.end());
  for (size_t bit = 1; bit < counts.size(); bit *= 2) {
    for (size_t block = 0; block < counts.size(); block += 2 * bit) {
      for (size_t i = block; i < block + bit; ++i) counts[i] += counts[i + bit];
    }
  }
  return counts;
}

// All intersections of a set of `a` with a set of `b`. The product of two counts of supersets is
// the number of pairs whose sets both contain a set. Undoing the count leaves the number of pairs
// whose intersection is exactly that set.
Table AndMeet(const Table& a, const Table& b) {
  std::vector<uint64_t> pairs = CountSupersets(a);
  const std::vector<uint64_t> others = CountSupersets(b);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] *= others[i];
  for (size_t bit = 1; bit < pairs.size(); bit *= 2) {
    for (size_t block = 0; block < pairs.size(); block += 2 * bit) {
      for (size_t i = block; i < block + bit; ++i) pairs[i] -= pairs[i + bit];
    }
  }
  Table met(pairs.size());
  for (size_t i = 0; i < pairs.size(); ++i) met[i] = pairs[i] != 0 ? 1 : 0;
  return met;
}

}  // namespace

DenseMerge::DenseMerge(const MergeLists& lists, const MergeRules& rules, SearchBudget& budget)
    : lists_(lists),
      rules_(rules),
      budget_(budget),
      positions_(lists.common.begin(), lists.common.end()),
      sets_(size_t{1} << positions_.size()) {}

uint32_t DenseMerge::Compress(NumaMask mask) const {
  uint32_t index = 0;
  for (size_t i = 0; i < positions_.size(); ++i) {
    if (mask.Contains(positions_[i])) index |= uint32_t{1} << i;
  }
  return index;
}

NumaMask DenseMerge::Spread(uint32_t index) const {
  NumaMask mask;
  for (; index != 0; index &= index - 1) {
    mask.Add(positions_[static_cast<size_t>(std::countr_zero(index))]);
  }
  return mask;
}

Table DenseMerge::Satisfying(const SetTable& sets, NumaMask outside) const {
  Table satisfying(sets_);
  const uint32_t not_within = full() & ~Compress(sets.within);
  for (uint32_t set = 0; set < sets_; ++set) satisfying[set] = (set & not_within) == 0 ? 1 : 0;
  std::vector<uint64_t> amounts(sets_);
  for (const DemandTable& demand : sets.demands) {
    amounts[0] = demand.AmountOf(outside);
    for (size_t set = 1; set < sets_; ++set) {
      const int lowest = positions_[static_cast<size_t>(std::countr_zero(set))];
      amounts[set] = SaturatingSum(amounts[set & (set - 1)], demand.OnNode(lowest));
    }
    for (const Place& place : demand.shared()) {
      if (place.nodes.Intersects(outside)) continue;
      const uint32_t nodes = Compress(place.nodes);
      for (size_t set = 1; set < sets_; ++set) {
        if ((set & nodes) != 0) amounts[set] = SaturatingSum(amounts[set], place.amount);
      }
    }
    for (size_t set = 0; set < sets_; ++set) {
      if (amounts[set] < demand.wanted()) satisfying[set] = 0;
    }
  }
  return satisfying;
}

Table DenseMerge::Within(const Hints& hints) const {
  const Choices choices = AllChoices(hints);
  Table table = choices.described == nullptr
                    ? Table(sets_)
                    : Satisfying(SetTable(choices.described->sets),
                                 choices.described->sets.within - lists_.common);
  for (const NumaMask mask : choices.masks) table[Compress(mask)] = 1;
  if (choices.any) table[full()] = 1;
  return table;
}

Table DenseMerge::PreferredWhole(const Hints& hints) const {
  const Choices choices = PreferredChoices(hints);
  Table table(sets_);
  if (choices.described != nullptr) {
    table = Satisfying(SetTable(choices.described->sets), {});
    for (uint32_t set = 0; set < sets_; ++set) {
      if (table[set] != 0 && !choices.described->IsPreferred(Spread(set))) table[set] = 0;
    }
  }
  for (const NumaMask mask : choices.masks) {
    if (lists_.common.Contains(mask)) table[Compress(mask)] = 1;
  }
  return table;
}

Table DenseMerge::PreferredWithin(const Hints& hints) const {
  const Choices choices = PreferredChoices(hints);
  Table table = PreferredWhole(hints);
  for (const NumaMask mask : choices.masks) table[Compress(mask)] = 1;
  if (choices.any) table[full()] = 1;
  if (choices.described == nullptr) return table;
  // A preferred set may also have nodes that are not common.
  const DescribedHints& described = *choices.described;
  const NumaMask others = described.sets.within - lists_.common;
  if (others.empty()) return table;
  const SetTable sets(described.sets);
  for (uint32_t set = 0; set < sets_; ++set) {
    const NumaMask kept = Spread(set);
    if (table[set] == 0 && PreferredMember(described, sets, kept, kept | others, budget_)) {
      table[set] = 1;
    }
  }
  return table;
}

template <typename TableOf>
Table DenseMerge::MeetAll(TableOf table_of) const {
  Table met;
  for (const Hints* hints : lists_.masked) {
    met = met.empty() ? table_of(*hints) : AndMeet(met, table_of(*hints));
  }
  return met;
}

Table DenseMerge::PreferredAndEqual() const {
  Table equal(sets_, 1);
  Table of_one(sets_);  // preferred by some list, while all others take any node
  bool all_take_any = true;
  for (const Hints* hints : lists_.masked) {
    const Table preferred = PreferredWhole(*hints);
    const bool takes_any = PreferredChoices(*hints).any;
    all_take_any = all_take_any && takes_any;
    for (size_t set = 0; set < sets_; ++set) {
      of_one[set] |= preferred[set];
      if (!takes_any) equal[set] &= preferred[set];
    }
  }
  if (!all_take_any) return equal;
  of_one[full()] = 1;
  return of_one;
}

Table DenseMerge::Preferred() const {
  if (!lists_.may_prefer) return Table(sets_);
  if (!rules_.as_1_20) return PreferredAndEqual();
  return MeetAll([this](const Hints& hints) { return PreferredWithin(hints); });
}

std::optional<TopologyHint> DenseMerge::BestOf(const Table& table, bool preferred,
                                               const CandidateOrder& order) const {
  std::optional<TopologyHint> best;
  int best_rank = 0;
  for (uint32_t set = 1; set < sets_; ++set) {
    if (table[set] == 0) continue;
    const int rank = order.RankOfCount(std::popcount(set), preferred);
    if (best && rank > best_rank) continue;
    // Masks come in ascending order, so without distances the first of a rank is the best.
    const TopologyHint candidate{Spread(set), preferred};
    if (best && rank == best_rank && !(rules_.prefer_closest && order.IsBetter(candidate, *best))) {
      continue;
    }
    best = candidate;
    best_rank = rank;
  }
  return best;
}

std::optional<TopologyHint> DenseMerge::Best(const NumaInfo& numa) const {
  if (const auto best = BestOf(Preferred(), true, CandidateOrder(numa, rules_, 0))) return best;
  const int best_count = rules_.as_1_20 ? 0 : BestNonPreferredCount(lists_, budget_);
  return BestOf(MeetAll([this](const Hints& hints) { return Within(hints); }), false,
                CandidateOrder(numa, rules_, best_count));
}

std::vector<TopologyHint> DenseMerge::Candidates() const {
  const Table preferred = Preferred();
  const Table met = MeetAll([this](const Hints& hints) { return Within(hints); });
  std::vector<TopologyHint> candidates;
  for (uint32_t set = 1; set < sets_; ++set) {
    if (met[set] != 0) candidates.push_back({Spread(set), preferred[set] != 0});
  }
  return candidates;
}

std::vector<NumaMask> DenseMerge::PreferredIntersections() const {
  const Table met = MeetAll([this](const Hints& hints) { return PreferredWithin(hints); });
  std::vector<NumaMask> sets;
  for (uint32_t set = 1; set < sets_; ++set) {
    if (met[set] != 0) sets.push_back(Spread(set));
  }
  return sets;
}

}  // namespace alignd::topologymanager
