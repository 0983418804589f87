// The merge for up to 16 common NUMA nodes: over tables with an entry for each of their 2^n sets.
// Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"
#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/set_family.h"

namespace alignd::topologymanager {

// Each list becomes a table of its masks, cut to the common nodes. MeetOf computes all
// intersections of a set of one table and a set of another in n * 2^n steps; the product of the
// lists would take 4^n. `lists` and `budget` outlive it.
class DenseMerge {
 public:
  // The largest MergeLimits::table_nodes.
  static constexpr int kMaxNodes = 20;

  DenseMerge(const MergeLists& lists, const MergeRules& rules, SearchBudget& budget);

  // The best hint of the merge; nullopt if no combination has a node in common.
  std::optional<TopologyHint> Best(const NumaInfo& numa) const;

  // All intersections of combinations, in ascending order of masks. One is preferred if some
  // combination makes it so.
  std::vector<TopologyHint> Candidates() const;

  // The intersections of preferred hints, equal or not.
  std::vector<NumaMask> PreferredIntersections() const;

 private:
  using Table = std::vector<uint8_t>;  // by compressed mask: 0 or 1

  uint32_t Compress(NumaMask mask) const;
  NumaMask Spread(uint32_t index) const;
  uint32_t full() const { return static_cast<uint32_t>(sets_ - 1); }

  // What each set has of one demand together with all nodes `outside` the common ones, in a unit
  // that all its amounts are multiples of.
  template <typename Amount>
  struct AmountsOf {
    std::vector<Amount> of_set;
    Amount wanted = 0;
  };
  // The unit of small amounts makes the tables small.
  using Amounts = std::variant<AmountsOf<int32_t>, AmountsOf<uint64_t>>;
  Amounts MakeAmounts(const DemandTable& demand, NumaMask outside) const;
  template <typename Amount, typename Add>
  AmountsOf<Amount> Sum(const DemandTable& demand, NumaMask outside, uint64_t unit, Add add) const;
  // The sets that satisfy the demands, of which these are the amounts.
  Table Satisfying(NumaMask within, const std::vector<Amounts>& demands) const;
  std::vector<Amounts> AllAmounts(const SetTable& sets, NumaMask outside) const;
  // The masks of the list, cut to the common nodes.
  Table Within(const Hints& hints) const;
  // As DescribedHints::IsPreferred.
  bool IsPreferred(const DescribedHints& hints, uint32_t set) const;
  // The preferred masks of the list that have common nodes only. `amounts`: of its described sets.
  Table PreferredWhole(const Hints& hints) const;
  Table PreferredWhole(const Hints& hints, const std::vector<Amounts>& amounts) const;
  // The preferred masks of the list, cut to the common nodes.
  Table PreferredWithin(const Hints& hints) const;

  // The intersections of all lists, each with its table.
  template <typename TableOf>
  Table MeetAll(TableOf table_of) const;
  // Preferred by all lists: what 1.36 calls preferred.
  Table PreferredAndEqual() const;
  Table Preferred() const;

  std::optional<TopologyHint> BestPreferred(const NumaInfo& numa) const;
  std::optional<TopologyHint> BestOf(const Table& table, bool preferred,
                                     const CandidateOrder& order) const;

  const MergeLists& lists_;
  const MergeRules rules_;
  SearchBudget& budget_;
  std::vector<int> positions_;   // the common nodes
  size_t sets_;                  // 2^n
  std::vector<uint8_t> counts_;  // by compressed mask: how many nodes it has
};

}  // namespace alignd::topologymanager
