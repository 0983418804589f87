// Whether several lists can leave out nodes between them, so that they meet in the rest. Private to
// the room.
#pragma once

#include <cstdint>
#include <set>
#include <vector>

#include "core/topologymanager/search/demand_table.h"
#include "core/topologymanager/search/subset_search.h"

namespace alignd::topologymanager {

// Each list starts with all its nodes, and leaves out some as long as it still satisfies its
// demands. A node costs every list something else: a problem of packing several knapsacks. What the
// lists can spare gets prices; at any prices, the nodes that are left out cost no more than all
// that can be spared is worth. So prices at which even the cheapest nodes, each in its cheapest
// list, cost more prove that it is impossible, and prices that come near to that lead to a way to
// do it. Only where neither is found one node after the other is decided about. Remembers what it
// found impossible.
class ExclusionSearch {
 public:
  // Equal lists have the same table. Everything outlives it.
  ExclusionSearch(std::vector<const SetTable*> lists, SearchBudget& budget);

  // Whether the lists can leave out some set of the family. False as well once the budget is used
  // up.
  bool CanLeaveOut(SetFamily family);

 private:
  // What one of the lists still has.
  struct Availability {
    NumaMask nodes;
    std::vector<uint64_t> spare;  // by demand: how much more than is wanted

    friend bool operator==(const Availability&, const Availability&) = default;
  };

  struct State {
    std::vector<Availability> left;  // by list
    SetFamily family;                // what is still to be left out
  };

  class Prices;
  enum class Verdict { kPossible, kImpossible, kOpen };

  // What the list loses of the demand with the node.
  uint64_t Loss(size_t list, size_t demand, int node, NumaMask left) const;
  bool CanSpare(size_t list, const Availability& left, int node) const;
  // So many of the nodes, or fewer, the list can leave out.
  int MostLeftOut(size_t list, const Availability& left, NumaMask nodes) const;
  void LeaveOut(size_t list, Availability& left, int node) const;
  // Whether an earlier list is in the same state.
  bool IsRepeated(size_t list, const State& state) const;

  bool Find(State state, const Prices* before);
  Verdict CandidateOrder(const State& state, int rounds, Prices& prices);
  // Leaves out what is cheapest, the dearest first. Whether that is possible.
  bool Follow(const State& state, const Prices& prices) const;
  // Of the nodes `of`, those that may as well be left out in place of `node`, or those in whose
  // place it may be; not both ways.
  NumaMask CheaperThan(int node, NumaMask of) const;
  NumaMask DearerThan(int node, NumaMask of) const;
  bool IsCheaper(int a, int b) const;
  // All that matters of a state: nodes that are alike, and lists that are, lead to equal keys.
  std::vector<uint64_t> KeyOf(const State& state) const;

  const std::vector<const SetTable*> lists_;
  SearchBudget& budget_;
  const NodeKinds kinds_;
  NumaMask shared_nodes_;
  std::set<std::vector<uint64_t>> impossible_;
};

}  // namespace alignd::topologymanager
