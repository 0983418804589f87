#include "allocation/held_requests.h"

#include <algorithm>
#include <utility>

namespace alignd::allocation {

Result<Done> HeldRequests::Hold(Caller& caller, const PluginWait& wait) {
  const AdmissionRequest& request = caller.request;
  if (!request.wait_until || Clock::now() >= *request.wait_until) return wait.why;
  const ContainerKey key{request.pod.uid, request.wanted};
  if (const auto earlier = held_.find(key); earlier != held_.end()) {
    earlier->second.caller.done(earlier->second.wait.why);
    Erase(earlier);
    Publish();
  }
  if (const auto why = WhyFull(request.message_bytes)) {
    return Error{ErrorCode::kUnavailable,
                 wait.why.message + ", and the request cannot wait: " + *why,
                 "start the device plugin, and delete pods that wait for it; the kubelet retries"};
  }
  caller.learned.reset();  // the kubelet may allocate devices meanwhile
  held_bytes_ += request.message_bytes;
  held_.emplace(key, Held{std::move(caller), wait, Clock::now()});
  Publish();
  return Done{};
}

std::optional<std::string> HeldRequests::WhyFull(size_t message_bytes) const {
  if (held_.size() >= kMaxHeld) {
    return std::to_string(held_.size()) + " requests wait for device plugins, and alignd holds " +
           std::to_string(kMaxHeld);
  }
  const size_t bytes = held_bytes_ + message_bytes;
  if (bytes <= kMaxHeldBytes) return std::nullopt;
  return "with it, the requests that wait for device plugins would have " + std::to_string(bytes) +
         " bytes, more than the " + std::to_string(kMaxHeldBytes) + " that alignd holds";
}

std::map<ContainerKey, HeldRequests::Held>::iterator HeldRequests::Erase(
    std::map<ContainerKey, Held>::iterator entry) {
  held_bytes_ -= entry->second.caller.request.message_bytes;
  return held_.erase(entry);
}

std::vector<Caller> HeldRequests::Take(
    const std::function<bool(const std::string& resource)>& is_awaited) {
  const Clock::time_point now = Clock::now();
  std::vector<Caller> ready;
  for (auto entry = held_.begin(); entry != held_.end();) {
    auto& [caller, wait, since] = entry->second;
    const bool must_wait = !caller.request.IsCancelled() && is_awaited(wait.resource);
    if (must_wait && now < *caller.request.wait_until) {
      ++entry;
      continue;
    }
    if (must_wait) {
      caller.done(wait.why);
    } else {
      ready.push_back(std::move(caller));  // its size stays
    }
    entry = Erase(entry);
  }
  Publish();
  return ready;
}

void HeldRequests::Answer(const Error& why) {
  held_bytes_ = 0;
  const auto held_before = std::exchange(held_, {});
  Publish();
  for (const auto& [key, held] : held_before) {
    held.caller.done(Error{why.code, why.message, held.wait.why.message});
  }
}

void HeldRequests::AnswerPod(const std::string& pod_uid, const Error& why) {
  for (auto entry = held_.lower_bound({pod_uid, ""});
       entry != held_.end() && entry->first.pod_uid == pod_uid; entry = Erase(entry)) {
    entry->second.caller.done(why);
  }
  Publish();
}

HeldRequests::Waits HeldRequests::waits() const {
  const MutexLock lock(mutex_);
  return waits_;
}

void HeldRequests::Publish() {
  Waits waits{.requests = held_.size()};
  std::vector<Wait> list;
  for (const auto& [key, held] : held_) {
    const bool is_first = waits.oldest == Clock::time_point();
    waits.oldest = is_first ? held.since : std::min(waits.oldest, held.since);
    const AdmissionRequest& request = held.caller.request;
    list.push_back({key, request.pod.name_space + "/" + request.pod.name, held.wait.why.Text(),
                    held.since, *request.wait_until});
  }
  if (!list.empty()) waits.list = std::make_shared<const std::vector<Wait>>(std::move(list));
  const MutexLock lock(mutex_);
  waits_ = waits;
}

std::optional<HeldRequests::Clock::time_point> HeldRequests::NextCheck() const {
  if (held_.empty()) return std::nullopt;
  Clock::time_point next = Clock::now() + kCheckPeriod;
  for (const auto& [key, held] : held_) next = std::min(next, *held.caller.request.wait_until);
  return next;
}

}  // namespace alignd::allocation
