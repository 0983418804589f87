// The merge for up to 16 common NUMA nodes: over tables with an entry for each of their 2^n sets.
// Private to the module.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"
#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/sets/demand_table.h"
#include "core/topologymanager/sets/subset_search.h"

namespace alignd::topologymanager {

// Each list becomes a table of its masks, cut to the common nodes. AndMeet computes all
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

  // The sets that satisfy the demands together with all nodes `outside` the common ones.
  Table Satisfying(const SetTable& sets, NumaMask outside) const;
  // The masks of the list, cut to the common nodes.
  Table Within(const Hints& hints) const;
  // The preferred masks of the list that have common nodes only.
  Table PreferredWhole(const Hints& hints) const;
  // The preferred masks of the list, cut to the common nodes.
  Table PreferredWithin(const Hints& hints) const;

  // The intersections of all lists, each with its table.
  template <typename TableOf>
  Table MeetAll(TableOf table_of) const;
  // Preferred by all lists: what 1.36 calls preferred.
  Table PreferredAndEqual() const;
  Table Preferred() const;

  std::optional<TopologyHint> BestOf(const Table& table, bool preferred,
                                     const CandidateOrder& order) const;

  const MergeLists& lists_;
  const MergeRules rules_;
  SearchBudget& budget_;
  std::vector<int> positions_;  // the common nodes
  size_t sets_;                 // 2^n
};

}  // namespace alignd::topologymanager
