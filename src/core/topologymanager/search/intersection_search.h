// Which sets several lists can meet in, as problems to search. Private to the room.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/search/demand_table.h"
#include "core/topologymanager/search/exclusion_search.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// Accepts a subset of `common` if each list has a set such that all of them together have exactly
// that subset in common. So every other common node has to be left out by some list, and each list
// can leave out only so much.
class IntersectionProblem : public SubsetProblem {
 public:
  // All lists have members. Everything outlives it.
  IntersectionProblem(NumaMask common, const std::vector<const DescribedHints*>& lists,
                      SearchBudget& budget);

  bool Accepts(NumaMask set) override;
  bool IsPossible(const SetFamily& family) override;
  void NoteImpossible(const SetFamily& family) override;

 protected:
  const NodeKinds& kinds() const { return kinds_; }

  IntersectionProblem(NumaMask common, const std::vector<NodeSets>& lists,
                      const std::vector<NumaMask>& groups, SearchBudget& budget);

 private:
  const NumaMask common_;
  const std::vector<SetTable> tables_;
  const std::vector<const SetTable*> lists_;
  const NodeKinds kinds_;
  ExclusionSearch exclusion_;
  std::set<std::vector<uint64_t>> impossible_;
};

// The same with preferred sets of each list.
class PreferredIntersectionProblem : public IntersectionProblem {
 public:
  PreferredIntersectionProblem(NumaMask common, const std::vector<const DescribedHints*>& lists,
                               SearchBudget& budget);

  bool Accepts(NumaMask set) override;
  bool IsPossible(const SetFamily& family) override;

 private:
  struct List {
    const DescribedHints* hints;
    SetTable sets;
  };

  // Which members of a list are looked at: those that have all of `kept` and lie in `allowed`.
  struct Bounds {
    NumaMask kept;
    NumaMask allowed;
  };

  // All that matters of bounds: nodes that are alike, and in the same bounds, lead to equal keys.
  std::vector<uint64_t> KeyOf(NumaMask set, const std::vector<Bounds>& bounds) const;

  // A preferred member within the bounds; without the nodes `unwanted` if that is easily seen.
  std::optional<NumaMask> Member(const List& list, const Bounds& bounds, NumaMask unwanted);

  // Whether preferred members within the bounds, one per list, can meet in exactly `set`.
  bool CanMeet(NumaMask set, std::vector<Bounds>& bounds);

  const NumaMask common_;
  SearchBudget& budget_;
  std::vector<List> lists_;
  std::set<std::vector<uint64_t>> apart_;  // bounds in which they cannot meet
};

}  // namespace alignd::topologymanager
