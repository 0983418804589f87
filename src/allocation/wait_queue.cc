#include "allocation/wait_queue.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "allocation/exclusive_needs.h"

namespace alignd::allocation {
namespace {

// Higher priority first, then older first.
bool IsBefore(const WaitQueue::Place& a, int32_t priority, uint64_t number) {
  return std::tuple(-int64_t{a.pod.priority}, a.number) < std::tuple(-int64_t{priority}, number);
}

bool HaveCommon(const std::set<std::string>& a, const std::set<std::string>& b) {
  return std::ranges::any_of(a, [&b](const std::string& kind) { return b.contains(kind); });
}

// What the place has as a whole follows from its parts. `has_part` is set already.
void Complete(WaitQueue::Place& place, bool had_part, WaitQueue::Time now) {
  place.pod.container.clear();
  place.pod.requested = nullptr;
  place.pod.needs.clear();
  place.is_confirmed = false;
  for (const auto& [container, part] : place.parts) {
    place.pod.needs.insert(part.needs.begin(), part.needs.end());
    place.is_confirmed = place.is_confirmed || part.is_confirmed;
  }
  if (!place.pod.has_part) place.has_part_since.reset();
  if (place.pod.has_part && !had_part) place.has_part_since = now;
}

bool IsSame(const std::shared_ptr<const Pod>& a, const std::shared_ptr<const Pod>& b) {
  return a == b || (a != nullptr && b != nullptr && *a == *b);
}

}  // namespace

const Refusal& WaitQueue::Place::WhyOf(const std::string& container) const {
  const auto part = parts.find(container);
  return part == parts.end() ? why : part->second.why;
}

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

WaitQueue::PartTimes* WaitQueue::FindTimes(const std::string& uid, const std::string& container) {
  const auto entry = FindEntry(uid);
  if (entry == entries_.end()) return nullptr;
  const auto times = entry->times.find(container);
  return times == entry->times.end() ? nullptr : &times->second;
}

std::vector<WaitQueue::SharedPlace> WaitQueue::Places() const {
  std::vector<SharedPlace> places;
  places.reserve(entries_.size());
  for (const Entry& entry : entries_) places.push_back(entry.place);
  return places;
}

const WaitQueue::Place* WaitQueue::Find(const std::string& uid) const {
  return Share(uid).get();  // the entry keeps it
}

WaitQueue::SharedPlace WaitQueue::Share(const std::string& uid) const {
  const auto entry = FindEntry(uid);
  return entry == entries_.end() ? nullptr : entry->place;
}

const WaitQueue::Part* WaitQueue::FindPart(const std::string& uid,
                                           const std::string& container) const {
  const Place* const place = Find(uid);
  if (place == nullptr) return nullptr;
  const auto part = place->parts.find(container);
  return part == place->parts.end() ? nullptr : &part->second;
}

size_t WaitQueue::PositionOf(const std::string& uid) const {
  const auto entry = FindEntry(uid);
  return entry == entries_.end() ? 0 : static_cast<size_t>(entry - entries_.begin()) + 1;
}

size_t WaitQueue::PartCount() const {
  size_t count = 0;
  for (const Entry& entry : entries_) count += entry.times.size();
  return count;
}

void WaitQueue::Insert(Entry entry) {
  const auto after = std::ranges::find_if(entries_, [&entry](const Entry& other) {
    return !IsBefore(*other.place, entry.place->pod.priority, entry.place->number);
  });
  entries_.insert(after, std::move(entry));
}

void WaitQueue::Replace(Entries::iterator entry, Place place) {
  const bool moves = place.pod.priority != entry->place->pod.priority;
  entry->place = std::make_shared<const Place>(std::move(place));
  if (!moves) return;
  Entry moved = std::move(*entry);
  entries_.erase(entry);
  Insert(std::move(moved));
}

bool WaitQueue::Join(const WaitingPod& pod, const Refusal& why, Time now) {
  const auto entry = FindEntry(pod.uid);
  const bool is_new = entry == entries_.end();
  const Part* const known = is_new ? nullptr : FindPart(pod.uid, pod.container);
  if (is_new && entries_.size() >= limits_.places) return false;
  if (known == nullptr && PartCount() >= limits_.parts) return false;
  Place place =
      is_new ? Place{.pod = pod, .number = joined_ + 1, .since = now, .why = why} : *entry->place;
  const bool had_part = !is_new && place.pod.has_part;
  place.pod.name = pod.name;
  place.pod.has_part = pod.has_part;
  if (pod.priority != 0) place.pod.priority = pod.priority;  // it never changes
  place.why = why;
  std::erase_if(place.parts, [&pod](const auto& other) {
    return pod.container.empty() != other.first.empty();  // the last request counts
  });
  Part& part = place.parts[pod.container];
  const bool needs_others = known != nullptr && known->needs != pod.needs;
  const auto requested = IsSame(part.requested, pod.requested) ? part.requested : pod.requested;
  part = {pod.needs, why, known != nullptr && known->is_confirmed, requested};
  Complete(place, had_part, now);
  if (is_new) {
    ++joined_;
    Insert({std::make_shared<const Place>(std::move(place)), {{pod.container, {.last = now}}}});
    return true;
  }
  std::erase_if(entry->times,
                [&place](const auto& times) { return !place.parts.contains(times.first); });
  PartTimes& own = entry->times[pod.container];
  own.last = now;
  if (needs_others) own.tried.reset();
  if (place.pod.has_part && !had_part) {
    for (auto& [container, times] : entry->times) times.tried.reset();
  }
  Replace(entry, std::move(place));
  return true;
}

void WaitQueue::Confirm(const std::string& uid, const std::string& container, const Refusal& why) {
  PartTimes* const times = FindTimes(uid, container);
  if (times == nullptr) return;
  times->explained = inventory_;
  times->checked = inventory_;
  const auto entry = FindEntry(uid);
  const Part& known = entry->place->parts.at(container);
  if (known.is_confirmed && known.why == why && entry->place->why == why) return;
  Place place = *entry->place;
  Part& part = place.parts.at(container);
  part.is_confirmed = true;
  part.why = why;
  place.is_confirmed = true;
  place.why = why;
  Replace(entry, std::move(place));
}

void WaitQueue::Called(const std::string& uid, const std::string& container, Time now) {
  if (PartTimes* const times = FindTimes(uid, container)) times->last = now;
  if (const auto failed = failed_.find(uid); failed != failed_.end()) failed->second.last = now;
}

void WaitQueue::Erase(Entries::iterator entry, WaitEnd end) {
  const bool is_counted = entry->place->is_confirmed || end == WaitEnd::kAdmitted;
  if (is_counted) ++ended_[static_cast<size_t>(end)];
  entries_.erase(entry);
}

bool WaitQueue::Leave(const std::string& uid, const std::string& container, WaitEnd end,
                      bool has_part, Time now) {
  const auto entry = FindEntry(uid);
  if (entry == entries_.end()) return false;
  Place place = *entry->place;
  const bool had_part = place.pod.has_part;
  const bool gets_part = end == WaitEnd::kAdmitted && has_part && !had_part;
  const size_t erased = std::erase_if(place.parts, [&](const auto& part) {
    // If a container was admitted alone, the pod is not asked for as a whole any more.
    return container.empty() || part.first == container || (part.first.empty() && gets_part);
  });
  if (place.parts.empty()) {
    Erase(entry, end);
    return true;
  }
  if (erased == 0 && !gets_part) return false;
  std::erase_if(entry->times,
                [&place](const auto& times) { return !place.parts.contains(times.first); });
  if (gets_part) {
    place.pod.has_part = true;
    for (auto& [other, times] : entry->times) times.tried.reset();  // waits for no pod any more
  }
  Complete(place, had_part, now);
  Replace(entry, std::move(place));
  return true;
}

void WaitQueue::Forget(const std::string& uid) {
  Leave(uid, WaitEnd::kPodGone);
  failed_.erase(uid);
}

bool WaitQueue::IsAvailable(const std::set<std::string>& needs) const {
  return !available_ || std::ranges::all_of(needs, [this](const std::string& kind) {
    return !IsDeviceKind(kind) || available_->contains(kind);
  });
}

bool WaitQueue::Reserves(const Place& place, const Part& part, Time now) const {
  if (place.has_part_since && now >= *place.has_part_since + limits_.part_reserves) return false;
  return IsAvailable(part.needs);
}

std::vector<WaitQueue::SharedPlace> WaitQueue::PlacesBefore(const WaitingPod& pod, Time now,
                                                            size_t limit) const {
  std::vector<SharedPlace> before;
  if (pod.has_part || pod.needs.empty()) return before;
  const Place* const own = Find(pod.uid);
  const uint64_t number = own == nullptr ? joined_ + 1 : own->number;
  const bool is_known = pod.priority == 0 && own != nullptr;
  const int32_t priority = is_known ? own->pod.priority : pod.priority;
  for (const Entry& entry : entries_) {
    const Place& other = *entry.place;
    if (before.size() >= limit || !IsBefore(other, priority, number)) return before;
    if (other.pod.uid == pod.uid) continue;
    const bool is_reserved = std::ranges::any_of(other.parts, [&](const auto& part) {
      return HaveCommon(part.second.needs, pod.needs) && Reserves(other, part.second, now);
    });
    if (is_reserved) before.push_back(entry.place);
  }
  return before;
}

const WaitQueue::Place* WaitQueue::FirstBefore(const WaitingPod& pod, Time now) const {
  const std::vector<SharedPlace> before = PlacesBefore(pod, now, 1);
  return before.empty() ? nullptr : before.front().get();  // entries_ has it
}

void WaitQueue::Tried(const std::string& uid, const std::string& container,
                      std::optional<uint64_t> generation) {
  if (PartTimes* const times = FindTimes(uid, container)) times->tried = generation;
}

bool WaitQueue::IsExplained(const std::string& uid, const std::string& container) const {
  const Part* const part = FindPart(uid, container);
  return part != nullptr && part->is_confirmed &&
         FindEntry(uid)->times.at(container).explained == inventory_;
}

std::optional<std::string> WaitQueue::NextToTry(
    Time now, const std::function<bool(const std::string& uid)>& is_called) {
  std::set<std::string> reserved;
  for (Entry& entry : entries_) {
    const Place& place = *entry.place;
    bool is_due = false;
    for (const auto& [container, part] : place.parts) {
      const bool must_wait = !place.pod.has_part && HaveCommon(part.needs, reserved);
      is_due = is_due || (!must_wait && entry.times.at(container).tried != generation_);
    }
    if (is_due && is_called(place.pod.uid)) {
      // Also what must wait: it says so itself (Tried).
      for (auto& [container, times] : entry.times) times.tried = generation_;
      return place.pod.uid;
    }
    for (const auto& [container, part] : place.parts) {
      if (Reserves(place, part, now)) reserved.insert(part.needs.begin(), part.needs.end());
    }
  }
  return std::nullopt;
}

void WaitQueue::Renew(Time now, const std::function<std::optional<WaitingPod>(
                                    const Place& place, const std::string& container)>& renew) {
  for (const SharedPlace& place : Places()) {
    for (const auto& [container, part] : place->parts) {
      const std::optional<WaitingPod> renewed = renew(*place, container);
      if (!renewed) {
        Leave(place->pod.uid, container, WaitEnd::kAdmitted, /*has_part=*/true, now);
        continue;
      }
      const auto entry = FindEntry(place->pod.uid);
      if (entry == entries_.end() || !entry->times.contains(container)) continue;
      Place next = *entry->place;
      const bool had_part = next.pod.has_part;
      next.pod.has_part = renewed->has_part;
      Part& renewed_part = next.parts.at(container);
      renewed_part.needs = renewed->needs;
      renewed_part.requested = renewed->requested;
      Complete(next, had_part, now);
      Replace(entry, std::move(next));
    }
  }
}

std::optional<WaitQueue::Check> WaitQueue::NextToCheck() const {
  std::optional<Check> next;
  uint64_t oldest = inventory_;
  for (const Entry& entry : entries_) {
    for (const auto& [container, part] : entry.place->parts) {
      const uint64_t checked = entry.times.at(container).checked;
      if (!part.is_confirmed || checked >= oldest) continue;
      if (part.requested == nullptr || !IsAvailable(part.needs)) continue;
      oldest = checked;
      next = {entry.place->pod.uid, container, entry.place->number, inventory_, part.requested};
    }
  }
  return next;
}

bool WaitQueue::Checked(const Check& check) {
  const Part* const part = FindPart(check.uid, check.container);
  if (part == nullptr || Find(check.uid)->number != check.number) return false;
  if (part->requested != check.requested) return false;
  PartTimes& times = *FindTimes(check.uid, check.container);
  times.checked = std::max(times.checked, check.inventory);
  return true;
}

}  // namespace alignd::allocation
