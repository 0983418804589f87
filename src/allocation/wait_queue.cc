#include "allocation/wait_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace alignd::allocation {
namespace {

// Higher priority first, then older first.
bool IsBefore(const WaitQueue::Place& a, int32_t priority, uint64_t number) {
  return std::tuple(-int64_t{a.pod.priority}, a.number) < std::tuple(-int64_t{priority}, number);
}

bool Share(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&b](const std::string& kind) { return b.contains(kind); });
}

}  // namespace

std::string_view ToString(WaitEnd end) {
  switch (end) {
    case WaitEnd::kAdmitted:
      return "admitted";
    case WaitEnd::kExpired:
      return "expired";
    case WaitEnd::kTimeout:
      return "timeout";
    case WaitEnd::kPodGone:
      return "pod-gone";
    case WaitEnd::kCannotFit:
      return "cannot-fit";
    case WaitEnd::kOtherReason:
      return "other-reason";
  }
  return "";
}

WaitQueue::Entries::iterator WaitQueue::FindEntry(const std::string& uid) {
  return std::ranges::find_if(entries_,
                              [&uid](const Entry& entry) { return entry.place->pod.uid == uid; });
}

WaitQueue::Entries::const_iterator WaitQueue::FindEntry(const std::string& uid) const {
  return std::ranges::find_if(entries_,
                              [&uid](const Entry& entry) { return entry.place->pod.uid == uid; });
}

std::vector<WaitQueue::SharedPlace> WaitQueue::Places() const {
  std::vector<SharedPlace> places;
  places.reserve(entries_.size());
  for (const Entry& entry : entries_) places.push_back(entry.place);
  return places;
}

const WaitQueue::Place* WaitQueue::Find(const std::string& uid) const {
  const auto entry = FindEntry(uid);
  return entry == entries_.end() ? nullptr : entry->place.get();
}

size_t WaitQueue::PositionOf(const std::string& uid) const {
  const auto entry = FindEntry(uid);
  return entry == entries_.end() ? 0 : static_cast<size_t>(entry - entries_.begin()) + 1;
}

const WaitQueue::SharedPlace* WaitQueue::FindFailed(const std::string& uid) const {
  const auto failed = failed_.find(uid);
  return failed == failed_.end() ? nullptr : &failed->second.place;
}

void WaitQueue::Insert(Entry entry) {
  const auto after = std::ranges::find_if(entries_, [&entry](const Entry& other) {
    return !IsBefore(*other.place, entry.place->pod.priority, entry.place->number);
  });
  entries_.insert(after, std::move(entry));
}

bool WaitQueue::Join(const WaitingPod& pod, const Refusal& why, Time now) {
  const auto known = FindEntry(pod.uid);
  if (known == entries_.end()) {
    if (entries_.size() >= limits_.places) return false;
    Place place{.pod = pod, .number = ++joined_, .since = now, .why = why, .is_confirmed = false};
    Insert({std::make_shared<const Place>(std::move(place)), now, {}, 0});
    return true;
  }
  known->last = now;
  if (known->place->pod == pod && known->place->why == why) return true;
  Entry entry = std::move(*known);
  entries_.erase(known);
  Place place = *entry.place;
  place.pod = pod;
  place.why = why;
  if (place.pod.needs != entry.place->pod.needs) entry.tried.reset();
  entry.place = std::make_shared<const Place>(std::move(place));
  Insert(std::move(entry));
  return true;
}

void WaitQueue::Confirm(const std::string& uid, const Refusal& why) {
  const auto entry = FindEntry(uid);
  if (entry == entries_.end()) return;
  entry->explained = inventory_;
  if (entry->place->is_confirmed && entry->place->why == why) return;
  Place place = *entry->place;
  place.is_confirmed = true;
  place.why = why;
  entry->place = std::make_shared<const Place>(std::move(place));
}

void WaitQueue::Called(const std::string& uid, Time now) {
  if (const auto entry = FindEntry(uid); entry != entries_.end()) entry->last = now;
  if (const auto failed = failed_.find(uid); failed != failed_.end()) failed->second.last = now;
}

void WaitQueue::Erase(Entries::iterator entry, WaitEnd end) {
  const bool is_counted = entry->place->is_confirmed || end == WaitEnd::kAdmitted;
  if (is_counted) ++ended_[static_cast<size_t>(end)];
  entries_.erase(entry);
}

bool WaitQueue::Leave(const std::string& uid, WaitEnd end) {
  const auto entry = FindEntry(uid);
  if (entry == entries_.end()) return false;
  Erase(entry, end);
  return true;
}

void WaitQueue::Forget(const std::string& uid) {
  Leave(uid, WaitEnd::kPodGone);
  failed_.erase(uid);
}

bool WaitQueue::Reserves(const Place& place, Time now) const {
  return !place.pod.has_part || now < place.since + limits_.part_reserves;
}

const WaitQueue::Place* WaitQueue::FirstBefore(const WaitingPod& pod, Time now) const {
  if (pod.has_part || pod.needs.empty()) return nullptr;
  const Place* const own = Find(pod.uid);
  const uint64_t number = own == nullptr ? joined_ + 1 : own->number;
  for (const Entry& entry : entries_) {
    const Place& other = *entry.place;
    if (!IsBefore(other, pod.priority, number)) return nullptr;
    if (other.pod.uid == pod.uid || !Reserves(other, now)) continue;
    if (Share(other.pod.needs, pod.needs)) return &other;
  }
  return nullptr;
}

void WaitQueue::AddFailed(SharedPlace place, Time now) {
  const std::string uid = place->pod.uid;
  failed_[uid] = {std::move(place), now};
  if (failed_.size() <= limits_.places) return;
  failed_.erase(
      std::ranges::min_element(failed_, {}, [](const auto& entry) { return entry.second.last; }));
}

WaitQueue::Expired WaitQueue::Expire(Time now,
                                     const std::function<bool(const std::string& uid)>& is_called) {
  Expired expired;
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const SharedPlace place = entry->place;
    if (is_called(place->pod.uid)) entry->last = now;
    const bool has_failed = limits_.fail_after && now >= place->since + *limits_.fail_after;
    if (!has_failed && now < entry->last + limits_.kept) {
      ++entry;
      continue;
    }
    const auto index = entry - entries_.begin();
    Erase(entry, has_failed ? WaitEnd::kTimeout : WaitEnd::kExpired);
    entry = entries_.begin() + index;
    (has_failed ? expired.failed : expired.dropped).push_back(place);
    if (has_failed) AddFailed(place, now);
  }
  std::erase_if(failed_,
                [&](const auto& entry) { return now >= entry.second.last + limits_.kept; });
  return expired;
}

std::optional<WaitQueue::Time> WaitQueue::NextExpiry(Time now) const {
  std::optional<Time> next;
  const auto add = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  for (const Entry& entry : entries_) {
    add(entry.last + limits_.kept);
    if (limits_.fail_after) add(entry.place->since + *limits_.fail_after);
    const Time reserves = entry.place->since + limits_.part_reserves;
    if (entry.place->pod.has_part && reserves > now) add(reserves);
  }
  for (const auto& [uid, failed] : failed_) add(failed.last + limits_.kept);
  return next;
}

void WaitQueue::Tried(const std::string& uid, uint64_t generation) {
  if (const auto entry = FindEntry(uid); entry != entries_.end()) entry->tried = generation;
}

bool WaitQueue::IsExplained(const std::string& uid) const {
  const auto entry = FindEntry(uid);
  return entry != entries_.end() && entry->place->is_confirmed && entry->explained == inventory_;
}

std::optional<std::string> WaitQueue::NextToTry(
    Time now, const std::function<bool(const std::string& uid)>& is_called) {
  std::set<std::string> reserved;
  for (Entry& entry : entries_) {
    const WaitingPod& pod = entry.place->pod;
    const bool must_wait = !pod.has_part && Share(pod.needs, reserved);
    if (!must_wait && entry.tried != generation_ && is_called(pod.uid)) {
      entry.tried = generation_;
      return pod.uid;
    }
    if (Reserves(*entry.place, now)) reserved.insert(pod.needs.begin(), pod.needs.end());
  }
  return std::nullopt;
}

}  // namespace alignd::allocation
