#include "core/topologymanager/dense_merge.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>

#include "alignd/base/saturating_sum.h"
#include "core/topologymanager/extension_check.h"
#include "core/topologymanager/search/merge_search.h"
#include "core/topologymanager/single_nodes.h"

namespace alignd::topologymanager {
namespace {

using Table = std::vector<uint8_t>;

// For each set, adds (or with `kUndo` subtracts) what the sets that contain it have.
template <bool kUndo, typename Count>
void AddSupersets(std::vector<Count>& counts) {
  const auto add = [](Count& to, Count from) {
    to = static_cast<Count>(kUndo ? to - from : to + from);
  };
  const auto add_bit = [&add](Count* first, size_t size, size_t bit) {
    constexpr size_t kWidth = 8;  // a fixed number at a time, for vector instructions
    for (Count* to = first; to != first + size; to += 2 * bit) {
      for (size_t i = 0; i < bit; i += kWidth) {
        for (size_t j = 0; j < kWidth; ++j) add(to[i + j], to[bit + i + j]);
      }
    }
  };
  // The first three bits of all, eight sets at a time; then the bits of a block that fits into the
  // first cache; then the others.
  constexpr size_t kGroup = 8;
  constexpr size_t kBlock = 4096;
  if (counts.size() < kGroup) {
    for (size_t bit = 1; bit < counts.size(); bit *= 2) {
      for (size_t set = 0; set < counts.size(); ++set) {
        if ((set & bit) == 0) add(counts[set], counts[set + bit]);
      }
    }
    return;
  }
  const size_t block = std::min(kBlock, counts.size());
  Count* const end = counts.data() + counts.size();
  for (Count* first = counts.data(); first != end; first += block) {
    for (Count* c = first; c != first + block; c += kGroup) {
      for (size_t i = 0; i < kGroup; i += 2) add(c[i], c[i + 1]);
      for (const size_t i : {size_t{0}, size_t{1}, size_t{4}, size_t{5}}) add(c[i], c[i + 2]);
      for (size_t i = 0; i < kGroup / 2; ++i) add(c[i], c[i + 4]);
    }
    for (size_t bit = kGroup; bit < block; bit *= 2) add_bit(first, block, bit);
  }
  for (size_t bit = block; bit < counts.size(); bit *= 2)
    add_bit(counts.data(), counts.size(), bit);
}

// All intersections of a set of `a` with a set of `b`. The product of two counts of supersets is
// the number of pairs whose sets both contain a set. Undoing the count leaves the number of pairs
// whose intersection is exactly that set. Of n nodes, that is at most 4^(n-1), but for the empty
// set: `Count` has to hold it. Sums and products may wrap around meanwhile.
template <typename Count>
Table MeetOf(const Table& a, const Table& b) {
  std::vector<Count> pairs(a.begin(), a.end());
  std::vector<Count> others(b.begin(), b.end());
  AddSupersets<false>(pairs);
  AddSupersets<false>(others);
  for (size_t i = 0; i < pairs.size(); ++i) pairs[i] *= others[i];
  AddSupersets<true>(pairs);
  Table met(pairs.size());
  for (size_t i = 1; i < pairs.size(); ++i) met[i] = pairs[i] != 0 ? 1 : 0;
  return met;
}

std::vector<uint32_t> SetsOf(const Table& table) {
  std::vector<uint32_t> sets;
  for (uint32_t set = 1; set < table.size(); ++set) {
    if (table[set] != 0) sets.push_back(set);
  }
  return sets;
}

// The empty set is no result.
Table AndMeet(const Table& a, const Table& b) {
  // Preferred sets are often few: then the pairs are fewer than the steps of the counts.
  const auto count = [](const Table& table) {
    return static_cast<size_t>(std::ranges::count(table, 1));
  };
  if (count(a) * count(b) <= a.size()) {
    const std::vector<uint32_t> of_a = SetsOf(a);
    const std::vector<uint32_t> of_b = SetsOf(b);
    Table met(a.size());
    for (const uint32_t one : of_a) {
      for (const uint32_t other : of_b) met[one & other] = 1;
    }
    met[0] = 0;
    return met;
  }
  constexpr size_t kMaxSetsOf32Bits = size_t{1} << 16;
  return a.size() <= kMaxSetsOf32Bits ? MeetOf<uint32_t>(a, b) : MeetOf<uint64_t>(a, b);
}

}  // namespace

DenseMerge::DenseMerge(const MergeLists& lists, const MergeRules& rules, SearchBudget& budget)
    : lists_(lists),
      rules_(rules),
      budget_(budget),
      positions_(lists.common.begin(), lists.common.end()),
      sets_(size_t{1} << positions_.size()),
      counts_(sets_) {
  for (size_t set = 1; set < sets_; ++set) {
    counts_[set] = static_cast<uint8_t>(counts_[set >> 1] + (set & 1));
  }
}

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

template <typename Amount, typename Add>
DenseMerge::AmountsOf<Amount> DenseMerge::Sum(const DemandTable& demand, NumaMask outside,
                                              uint64_t unit, Add add) const {
  const auto in_units = [unit](uint64_t amount) { return static_cast<Amount>(amount / unit); };
  AmountsOf<Amount> amounts{std::vector<Amount>(sets_), in_units(demand.wanted())};
  Amount* const of_set = amounts.of_set.data();
  of_set[0] = in_units(std::min(demand.AmountOf(outside), demand.wanted()));
  constexpr size_t kWidth = 8;  // a fixed number at a time, for vector instructions
  for (size_t i = 0; i < positions_.size(); ++i) {
    const Amount on_node = in_units(demand.OnNode(positions_[i]));
    const size_t bit = size_t{1} << i;
    Amount* const with = of_set + bit;
    if (bit < kWidth) {
      for (size_t set = 0; set < bit; ++set) with[set] = add(of_set[set], on_node);
      continue;
    }
    for (size_t set = 0; set < bit; set += kWidth) {
      for (size_t j = 0; j < kWidth; ++j) with[set + j] = add(of_set[set + j], on_node);
    }
  }
  for (const Place& place : demand.shared()) {
    if (place.nodes.Intersects(outside)) continue;
    const uint32_t nodes = Compress(place.nodes);
    if (nodes == 0) continue;
    const Amount amount = in_units(place.amount);
    // Sets of the lowest of the nodes on, so that whole blocks have a node.
    const size_t lowest = size_t{1} << std::countr_zero(nodes);
    for (size_t block = 0; block < sets_; block += 2 * lowest) {
      const size_t from = (block & nodes) != 0 ? block : block + lowest;
      for (size_t set = from; set < block + 2 * lowest; ++set) {
        of_set[set] = add(of_set[set], amount);
      }
    }
  }
  return amounts;
}

DenseMerge::Amounts DenseMerge::MakeAmounts(const DemandTable& demand, NumaMask outside) const {
  // Memory is a multiple of much more than a byte.
  uint64_t unit = demand.wanted();
  uint64_t most = demand.wanted();
  const auto count = [&](uint64_t amount) {
    unit = std::gcd(unit, amount);
    most = SaturatingSum(most, amount);
  };
  for (const int node : outside) count(demand.OnNode(node));
  for (const int node : positions_) count(demand.OnNode(node));
  for (const Place& place : demand.shared()) count(place.amount);
  if (most / unit <= std::numeric_limits<int32_t>::max()) {
    return Sum<int32_t>(demand, outside, unit, [](int32_t a, int32_t b) { return a + b; });
  }
  return Sum<uint64_t>(demand, outside, 1,
                       [](uint64_t a, uint64_t b) { return SaturatingSum(a, b); });
}

std::vector<DenseMerge::Amounts> DenseMerge::AllAmounts(const SetTable& sets,
                                                        NumaMask outside) const {
  std::vector<Amounts> all;
  all.reserve(sets.demands.size());
  for (const DemandTable& demand : sets.demands) all.push_back(MakeAmounts(demand, outside));
  return all;
}

Table DenseMerge::Satisfying(NumaMask within, const std::vector<Amounts>& demands) const {
  Table satisfying(sets_);
  const uint32_t not_within = full() & ~Compress(within);
  for (uint32_t set = 0; set < sets_; ++set) satisfying[set] = (set & not_within) == 0 ? 1 : 0;
  for (const Amounts& demand : demands) {
    std::visit(
        [&](const auto& amounts) {
          for (size_t set = 0; set < sets_; ++set) {
            if (amounts.of_set[set] < amounts.wanted) satisfying[set] = 0;
          }
        },
        demand);
  }
  return satisfying;
}

Table DenseMerge::Within(const Hints& hints) const {
  const Choices choices = AllChoices(hints);
  Table table(sets_);
  if (choices.described != nullptr) {
    const NodeSets& sets = choices.described->sets;
    table = Satisfying(sets.within, AllAmounts(SetTable(sets), sets.within - lists_.common));
  }
  for (const NumaMask mask : choices.masks) table[Compress(mask)] = 1;
  if (choices.any) table[full()] = 1;
  return table;
}

bool DenseMerge::IsPreferred(const DescribedHints& hints, uint32_t set) const {
  return counts_[set] == hints.preferred_nodes ||
         (!hints.groups.empty() && hints.IsPreferred(Spread(set)));
}

Table DenseMerge::PreferredWhole(const Hints& hints) const {
  const DescribedHints* const described = hints.described();
  return PreferredWhole(hints, described == nullptr ? std::vector<Amounts>()
                                                    : AllAmounts(SetTable(described->sets), {}));
}

Table DenseMerge::PreferredWhole(const Hints& hints, const std::vector<Amounts>& amounts) const {
  const Choices choices = PreferredChoices(hints);
  Table table(sets_);
  if (choices.described != nullptr) {
    table = Satisfying(choices.described->sets.within, amounts);
    for (uint32_t set = 0; set < sets_; ++set) {
      if (table[set] != 0 && !IsPreferred(*choices.described, set)) table[set] = 0;
    }
  }
  for (const NumaMask mask : choices.masks) {
    if (lists_.common.Contains(mask)) table[Compress(mask)] = 1;
  }
  return table;
}

Table DenseMerge::PreferredWithin(const Hints& hints) const {
  const Choices choices = PreferredChoices(hints);
  std::vector<Amounts> amounts;
  if (choices.described != nullptr) amounts = AllAmounts(SetTable(choices.described->sets), {});
  Table table = PreferredWhole(hints, amounts);
  for (const NumaMask mask : choices.masks) table[Compress(mask)] = 1;
  if (choices.any) table[full()] = 1;
  if (choices.described == nullptr) return table;
  // A preferred set may also have nodes that are not common.
  const DescribedHints& described = *choices.described;
  const NumaMask others = described.sets.within - lists_.common;
  if (others.empty()) return table;
  ExtensionCheck extension(described, others);
  std::vector<double> missing(amounts.size());
  for (uint32_t set = 0; set < sets_; ++set) {
    const bool has_many = described.groups.empty() && counts_[set] > described.preferred_nodes;
    if (table[set] != 0 || has_many) continue;
    for (size_t i = 0; i < amounts.size(); ++i) {
      missing[i] = std::visit(
          [set](const auto& amount) {
            const auto has = amount.of_set[set];
            return has >= amount.wanted ? 0.0
                                        : static_cast<double>(amount.wanted - has) /
                                              static_cast<double>(amount.wanted);
          },
          amounts[i]);
    }
    if (extension.Exists(Spread(set), missing, budget_)) table[set] = 1;
  }
  return table;
}

template <typename TableOf>
Table DenseMerge::MeetAll(TableOf table_of) const {
  Table met;
  const Hints* last = nullptr;
  Table of_last;
  for (const Hints* hints : lists_.masked) {
    // The lists of memory and huge pages are equal, and lie side by side.
    if (last == nullptr || *last != *hints) of_last = table_of(*hints);
    last = hints;
    met = met.empty() ? of_last : AndMeet(met, of_last);
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
    const int rank = order.RankOfCount(counts_[set], preferred);
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

std::optional<TopologyHint> DenseMerge::BestPreferred(const NumaInfo& numa) const {
  if (!lists_.may_prefer) return std::nullopt;
  if (!rules_.as_1_20) {
    // Seldom more than a few steps. If it does not end, the tables answer.
    SearchBudget budget = budget_;
    const std::optional<TopologyHint> best = BestPreferredBySearch(numa, lists_, rules_, budget);
    if (!budget.IsUsedUp()) return best;
  } else if (const auto node = FindNarrowestNode(numa, lists_, true, rules_); node.is_known) {
    return node.best;
  }
  return BestOf(Preferred(), true, CandidateOrder(numa, rules_, 0));
}

std::optional<TopologyHint> DenseMerge::Best(const NumaInfo& numa) const {
  if (const auto best = BestPreferred(numa)) return best;
  if (rules_.as_1_20) {
    const auto node = FindNarrowestNode(numa, lists_, false, rules_);
    if (node.is_known) return node.best;
  }
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
