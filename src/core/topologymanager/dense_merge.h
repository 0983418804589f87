// The merge where few NUMA nodes are common to all lists: over tables with an entry for each of
// their 2^n sets. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/topologymanager/hint_merger.h"
#include "core/topologymanager/candidate_order.h"
#include "core/topologymanager/merge_lists.h"
#include "core/topologymanager/search/demand_table.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// A list becomes the table of what its masks are within the common nodes. The sets in which two
// lists can meet, all intersections of a set of one and a set of the other, come out of their
// tables in n * 2^n steps (AndMeet), where the product would take 4^n. `lists` and `budget` outlive
// it.
class DenseMerge {
 public:
  // A few tables of so many nodes are tens of megabytes, and a fraction of a second.
  static constexpr int kMaxNodes = 20;

  DenseMerge(const MergeLists& lists, const MergeRules& rules, SearchBudget& budget);

  // The best set that some combination makes preferred, and the best of all where there is none.
  // nullopt if there is none.
  std::optional<NumaMask> BestPreferred(const CandidateOrder& order) const;
  std::optional<NumaMask> BestNotPreferred(const CandidateOrder& order) const;

  // All sets in which the lists meet, each preferred if some combination makes it so; in ascending
  // order of masks.
  std::vector<TopologyHint> Candidates() const;

  // The sets in which preferred hints meet, equal or not.
  std::vector<NumaMask> PreferredIntersections() const;

 private:
  using Table = std::vector<uint8_t>;  // by compressed mask: 0 or 1

  uint32_t Compress(NumaMask mask) const;
  NumaMask Spread(uint32_t index) const;
  uint32_t full() const { return static_cast<uint32_t>(sets_ - 1); }

  // Which sets lie within and, with the nodes `beside`, satisfy the demands.
  Table Satisfying(const SetTable& sets, NumaMask beside) const;
  // The masks of the list within the common nodes.
  Table Within(const Hints& hints) const;
  // The preferred masks of the list that lie in the common nodes as a whole.
  Table PreferredWhole(const Hints& hints) const;
  // The preferred masks of the list within the common nodes.
  Table PreferredWithin(const Hints& hints) const;

  // Where all lists meet, going by the table of each.
  template <typename TableOf>
  Table MeetAll(TableOf table_of) const;
  // All preferred and all equal: what 1.36 calls preferred.
  Table PreferredAndEqual() const;
  Table Preferred() const;

  std::optional<NumaMask> BestOf(const Table& table, bool preferred,
                                 const CandidateOrder& order) const;

  const MergeLists& lists_;
  const MergeRules rules_;
  SearchBudget& budget_;
  std::vector<int> positions_;  // the common nodes
  size_t sets_;                 // 2^n
};

}  // namespace alignd::topologymanager
