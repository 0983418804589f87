// Which sets several lists can meet in, as a problem to search. Private to the room.
#pragma once

#include <optional>
#include <vector>

#include "alignd/topologymanager/hint.h"
#include "core/topologymanager/demand_table.h"
#include "core/topologymanager/member_search.h"
#include "core/topologymanager/subset_search.h"

namespace alignd::topologymanager {

// Accepts a subset of `common` if each list has a (preferred) set such that all of them together
// have exactly that subset in common. So every other common node has to be left out by some list,
// and each list can leave out only so much.
class MeetingProblem : public SubsetProblem {
 public:
  // All lists have members. Everything outlives it.
  MeetingProblem(NumaMask common, const std::vector<const DescribedHints*>& lists,
                 bool preferred_only, Effort& effort);

  bool Accepts(NumaMask set) override;
  bool IsPossible(NumaMask chosen, NumaMask open, int need) override;

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

  // A (preferred) member within the bounds; without those of the nodes `unwanted` that can be
  // spared, as far as it is easily seen.
  std::optional<NumaMask> Member(const List& list, const Bounds& bounds, NumaMask unwanted);
  std::optional<NumaMask> PreferredMember(const List& list, NumaMask kept, NumaMask allowed);

  // Whether members within the bounds, one per list, can meet in exactly `set`.
  bool CanMeet(NumaMask set, std::vector<Bounds>& bounds);

  // Whether the lists together can leave out so many of the common nodes besides `chosen`, going by
  // the number of nodes that each can.
  bool CanLeaveOut(NumaMask chosen, int nodes, const std::vector<Bounds>& bounds) const;
  std::vector<Bounds> WithoutBounds(NumaMask kept) const;

  const NumaMask common_;
  const bool preferred_only_;
  Effort& effort_;
  std::vector<List> lists_;
};

}  // namespace alignd::topologymanager
