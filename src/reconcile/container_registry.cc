#include "reconcile/container_registry.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace alignd::reconcile {
namespace {

// The only key with this beginning; an exact match has precedence.
template <typename Value>
std::optional<std::string> KeyThatBegins(const std::map<std::string, Value>& values,
                                         const std::string& beginning) {
  if (beginning.empty()) return std::nullopt;  // every id begins so
  const auto first = values.lower_bound(beginning);
  if (first == values.end() || !first->first.starts_with(beginning)) return std::nullopt;
  const auto second = std::next(first);
  const bool ambiguous =
      first->first != beginning && second != values.end() && second->first.starts_with(beginning);
  if (ambiguous) return std::nullopt;
  return first->first;
}

}  // namespace

std::optional<std::string> ContainerRegistry::ContainerNamed(
    const std::string& id_or_beginning) const {
  const MutexLock lock(mutex_);
  return KeyThatBegins(containers_, id_or_beginning);
}

std::optional<std::string> ContainerRegistry::SandboxNamed(
    const std::string& id_or_beginning) const {
  const MutexLock lock(mutex_);
  return KeyThatBegins(sandboxes_, id_or_beginning);
}

void ContainerRegistry::AddSandbox(const std::string& id, const std::string& pod_uid,
                                   std::string name, std::string handler, PodPolicies policies) {
  CpuSet decided = policies.cpuset;
  const MutexLock lock(mutex_);
  sandboxes_[id] = {.pod_uid = PodUidOr(pod_uid, id),
                    .name = std::move(name),
                    .stopped = std::nullopt,
                    .handler = std::move(handler),
                    .policies = std::move(policies),
                    .decided = std::move(decided)};
  added_since_.insert(id);
}

void ContainerRegistry::SandboxStopped(const std::string& id) {
  const MutexLock lock(mutex_);
  const auto sandbox = sandboxes_.find(id);
  if (sandbox == sandboxes_.end()) return;
  if (!sandbox->second.stopped || sandbox->second.found) sandbox->second.stopped = Clock::now();
  sandbox->second.found = false;
  const std::string& pod_uid = sandbox->second.pod_uid;
  if (!HasStopped(pod_uid)) return;
  ForgetContainersOf(pod_uid);
}

std::optional<std::string> ContainerRegistry::RemoveSandbox(const std::string& id) {
  const MutexLock lock(mutex_);
  removed_since_.insert(id);
  const auto sandbox = sandboxes_.find(id);
  if (sandbox == sandboxes_.end()) return std::nullopt;
  const std::string pod_uid = sandbox->second.pod_uid;
  sandboxes_.erase(sandbox);
  if (HasSandbox(pod_uid)) return std::nullopt;
  ForgetContainersOf(pod_uid);
  return pod_uid;
}

void ContainerRegistry::ForgetContainersOf(const std::string& pod_uid) {
  std::erase_if(containers_, [&](const auto& entry) REQUIRES(mutex_) {
    if (entry.second.key.pod_uid != pod_uid) return false;
    if (!entry.second.unmanaged) forgotten_.insert(entry.first);
    removed_since_.insert(entry.first);
    return true;
  });
}

std::optional<std::string> ContainerRegistry::PodOfSandbox(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto sandbox = sandboxes_.find(id);
  if (sandbox == sandboxes_.end()) return std::nullopt;
  return sandbox->second.pod_uid;
}

std::vector<std::string> ContainerRegistry::SandboxesOf(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  std::vector<std::string> ids;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox.pod_uid == pod_uid && !sandbox.stopped) ids.push_back(id);
  }
  return ids;
}

std::set<std::string> ContainerRegistry::ContainersOf(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  std::set<std::string> names;
  for (const auto& [id, container] : containers_) {
    if (container.key.pod_uid == pod_uid) names.insert(container.key.container);
  }
  return names;
}

std::string ContainerRegistry::HandlerOfSandbox(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto sandbox = sandboxes_.find(id);
  return sandbox == sandboxes_.end() ? "" : sandbox->second.handler;
}

std::string ContainerRegistry::HandlerOfPod(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto sandbox = std::ranges::find_if(
      sandboxes_, [&pod_uid](const auto& entry) { return entry.second.pod_uid == pod_uid; });
  return sandbox == sandboxes_.end() ? "" : sandbox->second.handler;
}

PodPolicies ContainerRegistry::PoliciesOfPod(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto sandbox = std::ranges::find_if(
      sandboxes_, [&pod_uid](const auto& entry) { return entry.second.pod_uid == pod_uid; });
  return sandbox == sandboxes_.end() ? PodPolicies() : sandbox->second.policies;
}

std::string ContainerRegistry::PodName(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const auto sandbox = std::ranges::find_if(sandboxes_, [&pod_uid](const auto& entry) {
    return entry.second.pod_uid == pod_uid && !entry.second.name.empty();
  });
  return sandbox == sandboxes_.end() ? "" : sandbox->second.name;
}

std::map<std::string, std::string> ContainerRegistry::PodNames() const {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> names;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (!sandbox.name.empty()) names[sandbox.pod_uid] = sandbox.name;
  }
  return names;
}

std::vector<ContainerRegistry::Pod> ContainerRegistry::Pods(
    const std::set<std::string>& holding) const {
  const MutexLock lock(mutex_);
  std::map<std::string, Pod> pods;  // by UID
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox.stopped && !holding.contains(sandbox.pod_uid)) continue;
    Pod& pod = pods[sandbox.pod_uid];
    pod.uid = sandbox.pod_uid;
    if (!sandbox.decided.empty()) pod.decided = sandbox.decided;
    const size_t slash = sandbox.name.find('/');
    if (slash == std::string::npos) continue;
    pod.name_space = sandbox.name.substr(0, slash);
    pod.name = sandbox.name.substr(slash + 1);
  }
  for (const auto& [id, container] : containers_) {
    const auto pod = pods.find(container.key.pod_uid);
    if (pod != pods.end()) pod->second.containers.insert(container.key.container);
  }
  std::vector<Pod> list;
  for (auto& [uid, pod] : pods) list.push_back(std::move(pod));
  return list;
}

void ContainerRegistry::AddContainer(const std::string& id, const ContainerKey& key,
                                     const CpuSet& applied, std::optional<bool> is_exclusive) {
  const MutexLock lock(mutex_);
  // If a listing has shown the container already, another set may have been applied since.
  const auto [entry, is_new] = containers_.try_emplace(id);
  entry->second.key = key;
  entry->second.unmanaged = false;
  if (is_new) {
    entry->second.footprint = entry->second.last = applied;
    entry->second.last_exclusive = is_exclusive;
    entry->second.certain = true;
    entry->second.outcome_known = true;
  }
  added_since_.insert(id);
}

ContainerRegistry::Stopping* ContainerRegistry::StoppingOf(const std::string& id) {
  if (const auto found = sandboxes_.find(id); found != sandboxes_.end()) {
    return &found->second.stopping;
  }
  const auto found = containers_.find(id);
  return found == containers_.end() ? nullptr : &found->second.stopping;
}

void ContainerRegistry::BeginStop(const std::string& id) {
  const MutexLock lock(mutex_);
  if (Stopping* const stopping = StoppingOf(id)) ++stopping->calls;
}

void ContainerRegistry::EndStop(const std::string& id, bool may_go_on) {
  const MutexLock lock(mutex_);
  Stopping* const stopping = StoppingOf(id);
  if (stopping == nullptr) return;
  // It may have become known during the call.
  stopping->calls = std::max(stopping->calls - 1, 0);
  stopping->may_go_on = may_go_on;
}

bool ContainerRegistry::IsEnding(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  const bool sandbox_ends = std::ranges::any_of(sandboxes_, [&pod_uid](const auto& entry) {
    const Sandbox& sandbox = entry.second;
    return sandbox.pod_uid == pod_uid && sandbox.stopping.now() && !sandbox.stopped;
  });
  if (sandbox_ends) return true;
  bool any = false;
  for (const auto& [id, container] : containers_) {
    if (container.key.pod_uid != pod_uid) continue;
    if (!container.stopping.now()) return false;
    any = true;
  }
  return any;
}

void ContainerRegistry::RemoveContainer(const std::string& id) {
  const MutexLock lock(mutex_);
  removed_since_.insert(id);
  const auto container = containers_.find(id);
  if (container == containers_.end()) return;
  if (!container->second.unmanaged) forgotten_.insert(id);
  containers_.erase(container);
}

std::optional<ContainerKey> ContainerRegistry::KeyOf(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto container = containers_.find(id);
  if (container == containers_.end()) return std::nullopt;
  return container->second.key;
}

std::vector<ContainerRegistry::UnmanagedContainer> ContainerRegistry::UnmanagedContainers() const {
  const MutexLock lock(mutex_);
  std::vector<UnmanagedContainer> unmanaged;
  for (const auto& [id, container] : containers_) {
    if (container.unmanaged && container.runs) unmanaged.push_back({id, container.key});
  }
  return unmanaged;
}

bool ContainerRegistry::Manages(const std::string& id) const {
  const MutexLock lock(mutex_);
  const auto container = containers_.find(id);
  if (container != containers_.end()) return !container->second.unmanaged;
  return sandboxes_.contains(id) || forgotten_.contains(id);
}

void ContainerRegistry::BeginCall(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  CallBegins();
  ++calls_[pod_uid];
}

bool ContainerRegistry::EndCall(const std::string& pod_uid) {
  const MutexLock lock(mutex_);
  CallEnds();
  const auto calls = calls_.find(pod_uid);
  if (calls == calls_.end() || --calls->second > 0) return false;
  calls_.erase(calls);
  return HasStopped(pod_uid);
}

void ContainerRegistry::CallEnds() {
  --calls_under_way_;
  last_call_ = Clock::now();
}

ContainerRegistry::Clock::time_point ContainerRegistry::LastCall() const {
  const MutexLock lock(mutex_);
  return calls_under_way_ > 0 ? Clock::now() : last_call_;
}

bool ContainerRegistry::IsGone(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  if (calls_.contains(pod_uid)) return false;
  return std::ranges::none_of(sandboxes_, [&pod_uid](const auto& entry) {
    return entry.second.pod_uid == pod_uid && !entry.second.stopped;
  });
}

bool ContainerRegistry::HasRunningSandbox(const std::string& pod_uid) const {
  const MutexLock lock(mutex_);
  return HasSandbox(pod_uid) && !HasStopped(pod_uid);
}

std::set<std::string> ContainerRegistry::StoppedPods() const {
  std::set<std::string> stopped;
  for (const auto& [uid, time] : ReleaseTimes(Grace())) stopped.insert(uid);
  return stopped;
}

std::map<std::string, ContainerRegistry::Clock::time_point> ContainerRegistry::ReleaseTimes(
    const Grace& grace) const {
  const MutexLock lock(mutex_);
  std::map<std::string, Clock::time_point> times;
  std::set<std::string> running;
  for (const auto& [id, sandbox] : sandboxes_) {
    if (sandbox.stopped) {
      Clock::time_point& time = times[sandbox.pod_uid];  // the epoch, if new
      time = std::max(time, *sandbox.stopped + (sandbox.found ? grace.found : grace.stopped));
    } else {
      running.insert(sandbox.pod_uid);
    }
  }
  std::erase_if(times, [&](const auto& entry) REQUIRES(mutex_) {
    return running.contains(entry.first) || calls_.contains(entry.first);
  });
  return times;
}

// Whether the pod has sandboxes and all of them have stopped.
bool ContainerRegistry::HasStopped(const std::string& pod_uid) const {
  return HasSandbox(pod_uid) && std::ranges::all_of(sandboxes_, [&pod_uid](const auto& entry) {
           return entry.second.pod_uid != pod_uid || entry.second.stopped;
         });
}

bool ContainerRegistry::HasSandbox(const std::string& pod_uid) const {
  return std::ranges::any_of(
      sandboxes_, [&pod_uid](const auto& entry) { return entry.second.pod_uid == pod_uid; });
}

}  // namespace alignd::reconcile
