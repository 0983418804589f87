#include "core/topologymanager/search/intersection_search.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/topologymanager/search/member_search.h"

namespace alignd::topologymanager {
namespace {

std::vector<SetTable> TablesOf(const std::vector<NodeSets>& lists) {
  return {lists.begin(), lists.end()};
}

// Equal lists get the same table.
std::vector<const SetTable*> PointersTo(const std::vector<SetTable>& tables,
                                        const std::vector<NodeSets>& lists) {
  std::vector<const SetTable*> pointers;
  for (const NodeSets& sets : lists) {
    const auto first = std::ranges::find(lists, sets) - lists.begin();
    pointers.push_back(&tables[static_cast<size_t>(first)]);
  }
  return pointers;
}

std::vector<NodeSets> SetsOf(const std::vector<const DescribedHints*>& lists) {
  std::vector<NodeSets> sets;
  for (const DescribedHints* hints : lists) sets.push_back(hints->sets);
  return sets;
}

// Sets among which are all that are preferred. Where these are of one size, it is a demand like
// others: so many nodes.
std::vector<NodeSets> PreferredSetsOf(const std::vector<const DescribedHints*>& lists) {
  std::vector<NodeSets> sets = SetsOf(lists);
  for (size_t i = 0; i < lists.size(); ++i) {
    if (!lists[i]->groups.empty()) continue;
    Demand& nodes = sets[i].demands.emplace_back();
    for (const int node : sets[i].within) nodes.places.push_back({NumaMask::Of(node), 1});
    nodes.wanted = static_cast<uint64_t>(lists[i]->preferred_nodes);
  }
  return sets;
}

std::vector<NumaMask> GroupsOf(const std::vector<const DescribedHints*>& lists) {
  std::vector<NumaMask> groups;
  for (const DescribedHints* hints : lists) {
    groups.insert(groups.end(), hints->groups.begin(), hints->groups.end());
  }
  return groups;
}

}  // namespace

IntersectionProblem::IntersectionProblem(NumaMask common,
                                         const std::vector<const DescribedHints*>& lists,
                                         SearchBudget& budget)
    : IntersectionProblem(common, SetsOf(lists), {}, budget) {}

IntersectionProblem::IntersectionProblem(NumaMask common, const std::vector<NodeSets>& lists,
                                         const std::vector<NumaMask>& groups, SearchBudget& budget)
    : common_(common),
      tables_(TablesOf(lists)),
      lists_(PointersTo(tables_, lists)),
      kinds_(lists_, groups),
      exclusion_(lists_, budget) {}

bool IntersectionProblem::Accepts(NumaMask set) {
  return exclusion_.CanLeaveOut({common_ - set, {}});
}

bool IntersectionProblem::IsPossible(const SetFamily& family) {
  if (!impossible_.empty()) {
    std::vector<uint64_t> key;
    kinds_.AppendTo(key, family);
    if (impossible_.contains(key)) return false;
  }
  SetFamily left_out{common_ - family.chosen - family.Open(), family.parts};
  for (SetFamily::Part& part : left_out.parts) part.need = part.open.Count() - part.need;
  return exclusion_.CanLeaveOut(std::move(left_out));
}

void IntersectionProblem::NoteImpossible(const SetFamily& family) {
  std::vector<uint64_t> key;
  kinds_.AppendTo(key, family);
  impossible_.insert(std::move(key));
}

PreferredIntersectionProblem::PreferredIntersectionProblem(
    NumaMask common, const std::vector<const DescribedHints*>& lists, SearchBudget& budget)
    : IntersectionProblem(common, PreferredSetsOf(lists), GroupsOf(lists), budget),
      common_(common),
      budget_(budget) {
  for (const DescribedHints* hints : lists) lists_.push_back({hints, SetTable(hints->sets)});
}

bool PreferredIntersectionProblem::Accepts(NumaMask set) {
  std::vector<Bounds> bounds;
  for (const List& list : lists_) bounds.push_back({set, list.sets.within});
  return CanMeet(set, bounds);
}

bool PreferredIntersectionProblem::CanMeet(NumaMask set, std::vector<Bounds>& bounds) {
  if (!budget_.Step()) return false;
  NumaMask met = common_;
  for (size_t i = 0; i < lists_.size(); ++i) {
    const std::optional<NumaMask> member = Member(lists_[i], bounds[i], met - set);
    if (!member) return false;
    met = met & *member;
  }
  if (met == set) return true;
  std::vector<uint64_t> key = KeyOf(set, bounds);
  if (apart_.contains(key)) return false;
  // All these members have this node; in any meeting at `set` some list is the first that leaves it
  // out.
  const NumaMask node = NumaMask::Of(63 - std::countl_zero((met - set).bits()));
  const std::vector<Bounds> before = bounds;
  bool can = false;
  for (size_t i = 0; i < lists_.size() && !can; ++i) {
    if (before[i].kept.Intersects(node)) continue;
    bounds[i].allowed = before[i].allowed - node;
    can = CanMeet(set, bounds);
    bounds[i].allowed = before[i].allowed;
    bounds[i].kept = before[i].kept | node;
  }
  bounds = before;
  if (!can && !budget_.IsUsedUp()) apart_.insert(std::move(key));
  return can;
}

std::vector<uint64_t> PreferredIntersectionProblem::KeyOf(NumaMask set,
                                                          const std::vector<Bounds>& bounds) const {
  std::vector<uint64_t> key;
  for (int node = 0; node < NumaMask::kMaxNodes; ++node) {
    uint64_t& code = key.emplace_back(kinds().KindOf(node));
    code = code << 1 | (set.Contains(node) ? 1 : 0);
    code = code << 1 | (common_.Contains(node) ? 1 : 0);
    for (const Bounds& of_list : bounds) {
      code = code << 2 | (of_list.kept.Contains(node) ? 2 : 0) |
             (of_list.allowed.Contains(node) ? 1 : 0);
    }
  }
  std::ranges::sort(key);
  return key;
}

std::optional<NumaMask> PreferredIntersectionProblem::Member(const List& list, const Bounds& bounds,
                                                             NumaMask unwanted) {
  const NumaMask spared = unwanted - bounds.kept;
  const auto member = [&](NumaMask allowed) {
    return PreferredMember(*list.hints, list.sets, bounds.kept, allowed, budget_);
  };
  if (const auto without = member(bounds.allowed - spared)) return without;
  return member(bounds.allowed);
}

bool PreferredIntersectionProblem::IsPossible(const SetFamily& family) {
  if (!IntersectionProblem::IsPossible(family)) return false;
  return std::ranges::all_of(lists_, [&](const List& list) {
    return PreferredMember(*list.hints, list.sets, family.chosen, list.sets.within, budget_)
        .has_value();
  });
}

}  // namespace alignd::topologymanager
