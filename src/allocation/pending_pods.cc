#include "allocation/pending_pods.h"

#include <algorithm>
#include <tuple>
#include <utility>
#include <variant>

#include "alignd/admission/explanation.h"

namespace alignd::allocation {
namespace {

constexpr size_t kMaxMessageBytes = 4096;

// Pods of real workloads have less. An annotation could make a pod of many MiB.
bool IsSmall(const Pod& pod) {
  constexpr size_t kMaxContainers = 64;
  constexpr size_t kMaxResources = 512;
  size_t resources = 0;
  for (const Container& container : pod.containers) {
    resources += container.resources.limits.size() + container.resources.requests.size();
  }
  return pod.containers.size() <= kMaxContainers && resources <= kMaxResources;
}

}  // namespace

Requested Requested::In(const AdmissionRequest& request) {
  const Pod& pod = request.pod;
  return {.key = {pod.uid, request.wanted},
          .name = pod.name_space + "/" + pod.name,
          .pod = IsSmall(pod) ? std::make_shared<const Pod>(pod) : nullptr};
}

void PendingPods::Answered(const Requested& request, const Outcome& outcome, Time now) {
  const ContainerKey& key = request.key;
  const auto* const refusal = std::get_if<Refusal>(&outcome);
  const auto* const error = std::get_if<Error>(&outcome);
  const MutexLock lock(mutex_);
  if (refusal == nullptr && error == nullptr) {
    std::erase_if(pods_, [&](const auto& entry) {
      const bool is_admitted = key.container.empty() || entry.first.container.empty() ||
                               entry.first.container == key.container;
      return entry.first.pod_uid == key.pod_uid && is_admitted;
    });
    return;
  }
  DropOld(now);
  // A pod is refused as a whole when its sandbox is made, and then each of its containers: one of
  // these says it all. It lasts since the first of them.
  Time first = now;
  std::erase_if(pods_, [&](const auto& other) {
    const bool is_of_pod = other.first.pod_uid == key.pod_uid && other.first != key;
    if (!is_of_pod || (!key.container.empty() && !other.first.container.empty())) return false;
    first = std::min(first, other.second.first);
    return true;
  });
  const auto [entry, is_new] = pods_.try_emplace(key);
  PendingPod& pending = entry->second;
  if (is_new) pending.first = first;
  pending.key = key;
  pending.name = request.name;
  pending.state = refusal != nullptr ? "refused" : "failed";
  pending.reason = refusal != nullptr ? refusal->reason : "";
  pending.by_policy =
      refusal != nullptr && refusal->message.find(admission::kWhatWouldHelp) != std::string::npos;
  pending.message = (refusal != nullptr ? refusal->message : error->Text());
  if (pending.message.size() > kMaxMessageBytes) {
    pending.message = pending.message.substr(0, kMaxMessageBytes) + " (cut)";
  }
  pending.last = now;
  ++pending.times;
  pending.pod = request.pod;
  if (pods_.size() <= kCapacity) return;
  pods_.erase(
      std::ranges::min_element(pods_, {}, [](const auto& other) { return other.second.last; }));
}

void PendingPods::Forget(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  std::erase_if(pods_, [&](const auto& entry) { return entry.first.pod_uid == pod_uid; });
}

std::vector<PendingPod> PendingPods::Report(Time now) const {
  std::vector<PendingPod> report;
  {
    const MutexLock lock(mutex_);
    for (const auto& [key, pod] : pods_) {
      if (now - pod.last <= kShown) report.push_back(pod);
    }
  }
  std::ranges::stable_sort(report, {}, &PendingPod::first);
  return report;
}

std::vector<PendingPod> PendingPods::Find(std::string_view pod) const {
  std::map<std::string, Time> newest;          // by UID
  std::map<std::string, PendingPod> of_names;  // by namespace/name
  const MutexLock lock(mutex_);
  for (const auto& [key, pending] : pods_) {
    Time& last = newest[key.pod_uid];
    last = std::max(last, pending.last);
  }
  const auto rank = [&](const PendingPod& one) {
    return std::tuple(newest[one.key.pod_uid], one.key.pod_uid, !one.by_policy, one.last);
  };
  for (const auto& [key, pending] : pods_) {
    const std::string name = pending.name.substr(pending.name.find('/') + 1);
    if (key.pod_uid != pod && pending.name != pod && name != pod) continue;
    const auto [entry, is_new] = of_names.try_emplace(pending.name, pending);
    if (!is_new && rank(entry->second) < rank(pending)) entry->second = pending;
  }
  std::vector<PendingPod> found;
  for (auto& [name, pending] : of_names) {
    // A UID or a full name is that of one pod.
    if (pending.key.pod_uid == pod || name == pod) return {std::move(pending)};
    found.push_back(std::move(pending));
  }
  return found;
}

void PendingPods::DropOld(Time now) {
  std::erase_if(pods_, [&](const auto& entry) { return now - entry.second.last > kShown; });
}

}  // namespace alignd::allocation
