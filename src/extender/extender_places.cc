// The places that the extender keeps for pods on their way.
#include <algorithm>
#include <utility>

#include "alignd/placement/score.h"
#include "extender/extender.h"

namespace alignd::extender {
namespace {

// A few megabytes each.
constexpr size_t kMaxDeletions = 20'000;
constexpr size_t kMaxWaiting = 20'000;

}  // namespace

using placement::Outcome;
using placement::PlannedNode;
using placement::PlannedPod;

void Extender::DropSeen() {
  std::set<std::string> names;
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    if (known_.contains(kept->first)) {
      names.insert(kept->second.nodes.begin(), kept->second.nodes.end());
      kept = kept_.erase(kept);
    } else {
      ++kept;
    }
  }
  Reseat(names);
}

std::set<std::string> Extender::DropBefore(Clock::time_point current) {
  std::set<std::string> names;
  for (auto kept = kept_.begin(); kept != kept_.end();) {
    if (current - kept->second.since >= settings_.keep_for) {
      names.insert(kept->second.nodes.begin(), kept->second.nodes.end());
      kept = kept_.erase(kept);
      ++dropped_;
    } else {
      ++kept;
    }
  }
  return names;
}

void Extender::Reseat(const std::set<std::string>& names) {
  std::vector<const Kept*> in_order;
  for (const auto& [uid, kept] : kept_) in_order.push_back(&kept);
  std::ranges::stable_sort(in_order, {}, [](const Kept* kept) { return kept->since; });
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    if (seat != seats_.end()) seat->second.pods.clear();
  }
  for (const Kept* const kept : in_order) {
    for (const std::string& name : kept->nodes) {
      const auto seat = names.contains(name) ? seats_.find(name) : seats_.end();
      if (seat != seats_.end()) seat->second.pods.push_back(kept->pod.pod.uid);
    }
  }
  for (const std::string& name : names) {
    const auto seat = seats_.find(name);
    if (seat != seats_.end()) Place(seat->second);
  }
}

void Extender::Forget(const NodePointer& node) {
  // The address can be that of another node later.
  for (const auto& shape : shapes_) shape->known.erase(node.get());
}

void Extender::SetKept(Seat& seat, NodePointer node) {
  if (seat.kept != seat.base) Forget(seat.kept);
  seat.kept = std::move(node);
  seat.available.clear();
  if (seat.kept != nullptr && placement::IsScoredFirst(settings_.strategy)) {
    seat.available = placement::AvailableForScore(*seat.kept);
  }
}

void Extender::Place(Seat& seat) {
  seat.blocked.clear();
  if (seat.pods.empty() || seat.base == nullptr) {
    SetKept(seat, seat.base);
    return;
  }
  auto node = std::make_shared<PlannedNode>(*seat.base);
  for (const std::string& uid : seat.pods) {
    const PlannedPod& pod = kept_.at(uid).pod;
    if (node->Place(pod).outcome == Outcome::kFits) continue;
    seat.blocked = "pod " + NameOf(pod) +
                   " was let through to the node before, and can no longer be placed there; wait "
                   "until the node shows it, or its place is dropped";
  }
  SetKept(seat, std::move(node));
}

void Extender::KeepOnly(Kept& kept, const std::string& uid, const std::vector<std::string>& nodes) {
  for (const std::string& name : kept.nodes) {
    const auto seat = seats_.find(name);
    if (seat == seats_.end() || std::ranges::find(nodes, name) != nodes.end()) continue;
    std::erase(seat->second.pods, uid);
    Place(seat->second);
  }
  std::erase_if(kept.nodes, [&](const std::string& name) {
    return std::ranges::find(nodes, name) == nodes.end();
  });
}

bool Extender::Drop(const std::string& uid) {
  const auto kept = kept_.find(uid);
  if (kept == kept_.end()) return false;
  KeepOnly(kept->second, uid, {});
  kept_.erase(kept);
  return true;
}

void Extender::DropPlace(const std::string& uid, uint64_t place) {
  const MutexLock lock(mutex_);
  const auto kept = kept_.find(uid);
  if (place != 0 && kept != kept_.end() && kept->second.place == place) (void)Drop(uid);
}

void Extender::DropPlacesOf(const std::set<std::string>& deleted, Clock::time_point now) {
  const MutexLock lock(mutex_);
  for (const std::string& uid : deleted) {
    (void)Drop(uid);
    NoteDeleted(uid, now);
  }
}

void Extender::NoteDeleted(const std::string& uid, Clock::time_point now) {
  // A call that comes later than a place is kept for gets a place that is dropped by time.
  while (!deletions_.empty() && (now - deletions_.front().first >= settings_.keep_for ||
                                 deletions_.size() >= kMaxDeletions)) {
    deleted_.erase(deletions_.front().second);
    deletions_.pop_front();
  }
  if (deleted_.insert(uid).second) deletions_.emplace_back(now, uid);
  waiting_.erase(uid);
}

bool Extender::MayWait(const std::string& uid, Clock::time_point now) {
  const auto is_over = [now](const auto& entry) { return now - entry.second >= kWaitsAgain; };
  if (waiting_.size() >= kMaxWaiting) std::erase_if(waiting_, is_over);
  const auto found = waiting_.find(uid);
  if (found == waiting_.end() || is_over(*found)) {
    if (found == waiting_.end() && waiting_.size() >= kMaxWaiting) return false;
    waiting_[uid] = now;
    return true;
  }
  return now - found->second < kLongestWait;
}

// There is one pod of a name: an earlier one with another UID is gone.
void Extender::DropNamesakesOf(const PlannedPod& pod) {
  const auto namesake = std::ranges::find_if(
      kept_, [&](const auto& kept) { return NameOf(kept.second.pod) == NameOf(pod); });
  if (namesake != kept_.end()) (void)Drop(std::string(namesake->first));
}

}  // namespace alignd::extender
