// Places whose time is over, and the pods that are remembered because of it.
#include <algorithm>
#include <utility>

#include "allocation/wait_queue.h"

namespace alignd::allocation {

const WaitQueue::SharedPlace* WaitQueue::FindFailed(const std::string& uid) const {
  const auto failed = failed_.find(uid);
  return failed == failed_.end() ? nullptr : &failed->second.place;
}

const WaitQueue::SharedPlace* WaitQueue::FindFailedNamed(const std::string& name) const {
  const auto failed = std::ranges::find_if(
      failed_, [&name](const auto& entry) { return entry.second.place->pod.name == name; });
  return failed == failed_.end() ? nullptr : &failed->second.place;
}

void WaitQueue::AddFailed(SharedPlace place, Time now) {
  const std::string uid = place->pod.uid;
  failed_[uid] = {std::move(place), now};
  if (failed_.size() <= limits_.places) return;
  failed_.erase(
      std::ranges::min_element(failed_, {}, [](const auto& entry) { return entry.second.last; }));
}

WaitQueue::Expired WaitQueue::Expire(Time now, const IsCalled& is_called) {
  Expired expired;
  for (const SharedPlace& place : Places()) {
    const std::string& uid = place->pod.uid;
    if (limits_.fail_after && now >= place->since + *limits_.fail_after) {
      Erase(FindEntry(uid), WaitEnd::kTimeout);
      AddFailed(place, now);
      expired.failed.push_back(place);
      continue;
    }
    for (const auto& [container, part] : place->parts) {
      PartTimes& times = *FindTimes(uid, container);
      if (is_called(uid, container)) times.last = now;
      if (now >= times.last + limits_.kept) Leave(uid, container, WaitEnd::kExpired, false, now);
      if (Find(uid) == nullptr) break;
    }
    if (Find(uid) == nullptr) expired.dropped.push_back(place);
  }
  std::erase_if(failed_,
                [&](const auto& entry) { return now >= entry.second.last + limits_.kept; });
  return expired;
}

std::optional<WaitQueue::Time> WaitQueue::NextExpiry(Time now) const {
  std::optional<Time> next;
  const auto add = [&next](Time time) { next = next ? std::min(*next, time) : time; };
  for (const Entry& entry : entries_) {
    const Place& place = *entry.place;
    for (const auto& [container, times] : entry.times) add(times.last + limits_.kept);
    if (limits_.fail_after) add(place.since + *limits_.fail_after);
    if (!place.has_part_since) continue;
    const Time reserves = *place.has_part_since + limits_.part_reserves;
    if (reserves > now) add(reserves);
  }
  for (const auto& [uid, failed] : failed_) add(failed.last + limits_.kept);
  return next;
}

}  // namespace alignd::allocation
