#include "allocation/held_requests.h"

#include <algorithm>
#include <utility>

namespace alignd::allocation {

bool HeldRequests::Hold(Caller& caller, const PluginWait& wait) {
  const AdmissionRequest& request = caller.request;
  if (!request.wait_until || Clock::now() >= *request.wait_until) return false;
  const ContainerKey key{request.pod.uid, request.wanted};
  if (auto earlier = held_.extract(key)) earlier.mapped().caller.done(earlier.mapped().wait.why);
  if (held_.size() >= kMaxHeld) return false;
  caller.learned.reset();  // the kubelet may allocate devices meanwhile
  held_.emplace(key, Held{std::move(caller), wait});
  return true;
}

std::vector<Caller> HeldRequests::Take(
    const std::function<bool(const std::string& resource)>& is_awaited) {
  const Clock::time_point now = Clock::now();
  std::vector<Caller> ready;
  for (auto entry = held_.begin(); entry != held_.end();) {
    auto& [caller, wait] = entry->second;
    const bool must_wait = !caller.request.IsAbandoned() && is_awaited(wait.resource);
    if (must_wait && now < *caller.request.wait_until) {
      ++entry;
      continue;
    }
    if (must_wait) {
      caller.done(wait.why);
    } else {
      ready.push_back(std::move(caller));
    }
    entry = held_.erase(entry);
  }
  return ready;
}

void HeldRequests::Answer(const Error& why) {
  for (const auto& [key, held] : std::exchange(held_, {})) {
    held.caller.done(Error{why.code, why.message, held.wait.why.message});
  }
}

void HeldRequests::AnswerPod(const std::string& pod_uid, const Error& why) {
  for (auto entry = held_.lower_bound({pod_uid, ""});
       entry != held_.end() && entry->first.pod_uid == pod_uid; entry = held_.erase(entry)) {
    entry->second.caller.done(why);
  }
}

std::optional<HeldRequests::Clock::time_point> HeldRequests::NextCheck() const {
  if (held_.empty()) return std::nullopt;
  Clock::time_point next = Clock::now() + kCheckPeriod;
  for (const auto& [key, held] : held_) next = std::min(next, *held.caller.request.wait_until);
  return next;
}

}  // namespace alignd::allocation
