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
                 wait.resource.empty()
                     ? "delete pods that wait; the kubelet retries, and the pod keeps its place"
                     : "start the device plugin, and delete pods that wait for it; the kubelet "
                       "retries"};
  }
  caller.learned.reset();  // the kubelet may allocate devices meanwhile
  held_bytes_ += request.message_bytes;
  caller.is_tried_again = false;
  held_.emplace(key, Held{std::move(caller), wait, Clock::now()});
  if (!wait.resource.empty()) Publish();
  return Done{};
}

std::optional<std::string> HeldRequests::WhyFull(size_t message_bytes) const {
  if (held_.size() >= kMaxHeld) {
    return std::to_string(held_.size()) + " requests wait already, and alignd holds " +
           std::to_string(kMaxHeld);
  }
  const size_t bytes = held_bytes_ + message_bytes;
  if (bytes <= kMaxHeldBytes) return std::nullopt;
  return "with it, the requests that wait would have " + std::to_string(bytes) +
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
    const bool is_queued = wait.resource.empty();
    const bool must_wait =
        !caller.request.IsCancelled() && (is_queued || is_awaited(wait.resource));
    if (must_wait && now < *caller.request.wait_until) {
      ++entry;
      continue;
    }
    if (must_wait && !is_queued) {
      caller.done(wait.why);
    } else {
      ready.push_back(std::move(caller));  // its size stays
    }
    entry = Erase(entry);
  }
  Publish();
  return ready;
}

std::vector<Caller> HeldRequests::TakeQueued(const std::string& pod_uid) {
  std::vector<Caller> taken;
  for (auto entry = held_.lower_bound({pod_uid, ""});
       entry != held_.end() && entry->first.pod_uid == pod_uid;) {
    if (!entry->second.wait.resource.empty()) {
      ++entry;
      continue;
    }
    const size_t bytes = entry->second.caller.request.message_bytes;
    taken.push_back(std::move(entry->second.caller));
    taken.back().is_tried_again = true;
    held_bytes_ -= bytes;
    entry = held_.erase(entry);
  }
  return taken;
}

bool HeldRequests::HasQueued(const std::string& pod_uid) const {
  for (auto entry = held_.lower_bound({pod_uid, ""});
       entry != held_.end() && entry->first.pod_uid == pod_uid; ++entry) {
    if (entry->second.wait.resource.empty()) return true;
  }
  return false;
}

bool HeldRequests::Holds(const std::string& pod_uid, const std::string& container) const {
  if (!container.empty()) return held_.contains({pod_uid, container});
  const auto first = held_.lower_bound({pod_uid, ""});
  return first != held_.end() && first->first.pod_uid == pod_uid;
}

void HeldRequests::Answer(const Error& why) {
  held_bytes_ = 0;
  const auto held_before = std::exchange(held_, {});
  Publish();
  for (const auto& [key, held] : held_before) {
    held.caller.done(Error{why.code, why.message, held.wait.why.message});
  }
}

void HeldRequests::AnswerPod(const std::string& pod_uid,
                             const std::function<Error(const Pod& pod)>& why) {
  std::vector<Caller> answered;
  for (auto entry = held_.lower_bound({pod_uid, ""});
       entry != held_.end() && entry->first.pod_uid == pod_uid;) {
    const size_t bytes = entry->second.caller.request.message_bytes;
    answered.push_back(std::move(entry->second.caller));
    held_bytes_ -= bytes;
    entry = held_.erase(entry);
  }
  Publish();  // before the callers know
  for (const Caller& caller : answered) caller.done(why(caller.request.pod));
}

HeldRequests::Waits HeldRequests::waits() const {
  const MutexLock lock(mutex_);
  return waits_;
}

void HeldRequests::Publish() {
  Waits waits;
  std::vector<Wait> list;
  for (const auto& [key, held] : held_) {
    if (held.wait.resource.empty()) continue;  // the WaitQueue has it
    ++waits.requests;
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
  std::optional<Clock::time_point> next;
  const auto add = [&next](Clock::time_point time) { next = next ? std::min(*next, time) : time; };
  for (const auto& [key, held] : held_) {
    if (!held.wait.resource.empty()) add(Clock::now() + kCheckPeriod);
    add(*held.caller.request.wait_until);
  }
  return next;
}

}  // namespace alignd::allocation
