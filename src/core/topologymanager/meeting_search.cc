#include "core/topologymanager/meeting_search.h"

#include <algorithm>
#include <bit>

namespace alignd::topologymanager {

MeetingProblem::MeetingProblem(NumaMask common, const std::vector<const DescribedHints*>& lists,
                               bool preferred_only, Effort& effort)
    : common_(common), preferred_only_(preferred_only), effort_(effort) {
  for (const DescribedHints* hints : lists) lists_.push_back({hints, SetTable(hints->sets)});
}

std::vector<MeetingProblem::Bounds> MeetingProblem::WithoutBounds(NumaMask kept) const {
  std::vector<Bounds> bounds;
  for (const List& list : lists_) bounds.push_back({kept, list.sets.within});
  return bounds;
}

bool MeetingProblem::Accepts(NumaMask set) {
  std::vector<Bounds> bounds = WithoutBounds(set);
  return CanMeet(set, bounds);
}

bool MeetingProblem::CanMeet(NumaMask set, std::vector<Bounds>& bounds) {
  if (!effort_.Step()) return false;
  NumaMask met = common_;
  for (size_t i = 0; i < lists_.size(); ++i) {
    const std::optional<NumaMask> member = Member(lists_[i], bounds[i], met - set);
    if (!member) return false;
    met = met & *member;
  }
  if (met == set) return true;
  if (!preferred_only_ && !CanLeaveOut(set, (common_ - set).Count(), bounds)) return false;
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
  return can;
}

std::optional<NumaMask> MeetingProblem::Member(const List& list, const Bounds& bounds,
                                               NumaMask unwanted) {
  const NumaMask spared = unwanted - bounds.kept;
  if (preferred_only_) {
    if (const auto member = PreferredMember(list, bounds.kept, bounds.allowed - spared)) {
      return member;
    }
    return PreferredMember(list, bounds.kept, bounds.allowed);
  }
  if (!list.sets.Contains(bounds.allowed)) return std::nullopt;
  NumaMask member = bounds.allowed - spared;
  if (list.sets.Contains(member)) return member;
  member = bounds.allowed;
  for (const int node : spared& bounds.allowed) {
    const NumaMask fewer = member - NumaMask::Of(node);
    if (list.sets.Contains(fewer)) member = fewer;
  }
  return member;
}

std::optional<NumaMask> MeetingProblem::PreferredMember(const List& list, NumaMask kept,
                                                        NumaMask allowed) {
  if (!allowed.Contains(kept)) return std::nullopt;
  const NumaMask open = allowed - kept;
  MemberProblem problem(DemandsOf(list.sets), {}, {list.hints});
  const int exactly = list.hints->preferred_nodes - kept.Count();
  if (list.hints->groups.empty()) return LowestSubset(kept, open, exactly, problem, effort_);
  for (int more = 0; more <= open.Count(); ++more) {
    if (const auto member = LowestSubset(kept, open, more, problem, effort_)) return member;
  }
  return std::nullopt;
}

bool MeetingProblem::CanLeaveOut(NumaMask chosen, int nodes,
                                 const std::vector<Bounds>& bounds) const {
  for (size_t i = 0; i < lists_.size(); ++i) {
    const SetTable& sets = lists_[i].sets;
    const NumaMask out = sets.within - bounds[i].allowed;
    const NumaMask open = common_ - chosen - bounds[i].kept - out;
    int most = open.Count();
    for (const DemandTable& demand : sets.demands) {
      most = std::min(most, demand.AtMostLeftOut(bounds[i].allowed, open));
    }
    nodes -= most + (out & common_).Count();
    if (nodes <= 0) return true;
  }
  return false;
}

bool MeetingProblem::IsPossible(NumaMask chosen, NumaMask open, int need) {
  if (preferred_only_) {
    return std::ranges::all_of(lists_, [&](const List& list) {
      return PreferredMember(list, chosen, list.sets.within).has_value();
    });
  }
  // Where they can meet in a set, they can meet in every larger one.
  return CanLeaveOut(chosen, common_.Count() - chosen.Count() - need, WithoutBounds(chosen)) &&
         Accepts(chosen | open);
}

}  // namespace alignd::topologymanager
