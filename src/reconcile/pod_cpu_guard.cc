#include "reconcile/pod_cpu_guard.h"

#include <spdlog/spdlog.h>
#include <sys/inotify.h>

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "cgroup/pod_quota.h"

namespace alignd::reconcile {

PodCpuGuard::PodCpuGuard(TaskQueue& io, std::shared_ptr<host::EventLoop> events,
                         Decisions decisions, const ContainerRegistry& registry,
                         const cgroup::CgroupTree& cgroups, Conditions& conditions, Options options)
    : decisions_(std::move(decisions)),
      registry_(registry),
      cgroups_(cgroups),
      conditions_(conditions),
      options_(std::move(options)),
      lifted_before_(options_.lifted),
      task_(io, [this] { return Run(); }),
      watch_(std::move(events), [this](const host::FileWatch::Change& change) {
        {
          const MutexLock lock(mutex_);
          written_[change.key] |= (change.events & IN_IGNORED) != 0;
        }
        task_.RunSoon();
      }) {}

LiftedQuotas PodCpuGuard::Lifted() const {
  LiftedQuotas lifted = lifted_before_;
  for (const auto& [uid, pod] : pods_) {
    if (pod.lifted) lifted[uid] = {pod.path, *pod.lifted};
  }
  return lifted;
}

void PodCpuGuard::Guard(const std::string& pod_uid, const std::string& parent) {
  const std::optional<std::string> path = cgroup::PathOfPod(parent, pod_uid);
  if (!path) {
    spdlog::debug("pod {}: its cgroup parent \"{}\" is not its own", pod_uid, parent);
    return;
  }
  {
    const MutexLock lock(mutex_);
    wanted_[pod_uid] = *path;
  }
  task_.RunSoon();
}

void PodCpuGuard::ResizeRefused(const std::string& pod_uid) {
  {
    const MutexLock lock(mutex_);
    refused_.insert(pod_uid);
  }
  task_.RunSoon();
}

void PodCpuGuard::ResizeAccepted(const std::string& pod_uid) {
  {
    const MutexLock lock(mutex_);
    refused_.erase(pod_uid);
    accepted_.insert(pod_uid);
  }
  task_.RunSoon();
}

PodCpuGuard::Clock::time_point PodCpuGuard::Run() {
  TakeRequests();
  TakeLifted();
  ForgetGone();
  std::vector<std::string> now;
  for (const auto& [uid, time] : due_) {
    if (time <= Clock::now()) now.push_back(uid);
  }
  for (const std::string& uid : now) {
    const auto pod = pods_.find(uid);
    if (pod != pods_.end() && pod->second.retry) {
      due_[uid] = *pod->second.retry;  // ForgetGone then restores its quota
      continue;
    }
    due_.erase(uid);
    if (pod != pods_.end()) Check(uid, pod->second);
  }
  Clock::time_point next = RecurringTask::kNever;
  for (const auto& [uid, time] : due_) next = std::min(next, time);
  return next;
}

void PodCpuGuard::TakeRequests() {
  std::map<std::string, std::string> wanted;
  std::set<std::string> refused;
  std::set<std::string> accepted;
  std::map<std::string, bool> written;
  {
    const MutexLock lock(mutex_);
    wanted.swap(wanted_);
    refused.swap(refused_);
    accepted.swap(accepted_);
    written.swap(written_);
  }
  const Clock::time_point now = Clock::now();
  for (auto& [uid, path] : wanted) {
    pods_[uid].path = std::move(path);
    CheckAt(uid, now);
  }
  // Before the refused ones: of both, the later call was refused.
  for (const std::string& uid : accepted) {
    const auto pod = pods_.find(uid);
    if (pod == pods_.end()) continue;
    // The kubelet writes its quota at each of them.
    if (!pod->second.reported) pod->second.repairs.clear();
    pod->second.shares.clear();  // the check reads them
    pod->second.changed.reset();
    pod->second.restore = false;
    CheckAt(uid, now);
  }
  for (const std::string& uid : refused) {
    const auto pod = pods_.find(uid);
    if (pod == pods_.end()) continue;  // its containers are checked as soon as they are known
    pod->second.refused = now;
    pod->second.restore = true;
    pod->second.asked = true;
    CheckAt(uid, now);
  }
  for (const auto& [uid, removed] : written) {
    const auto pod = pods_.find(uid);
    if (pod == pods_.end()) continue;
    if (removed) pod->second.watched = false;
    if (pod->second.retry) pod->second.retry = now;  // perhaps the kubelet's quota
    pod->second.asked = true;
    CheckAt(uid, now);
  }
}

void PodCpuGuard::TakeLifted() {
  std::erase_if(lifted_before_, [this](const auto& entry) {
    const std::string& uid = entry.first;
    if (!decisions_.has_exclusive(uid) && !registry_.HasRunningSandbox(uid)) return false;
    Pod& pod = pods_[uid];
    pod.path = entry.second.path;
    if (!pod.lifted) pod.lifted = entry.second.quota;
    CheckAt(uid, Clock::now());
    return true;
  });
}

void PodCpuGuard::ForgetGone() {
  for (auto entry = pods_.begin(); entry != pods_.end();) {
    const std::string& uid = entry->first;
    Pod& pod = entry->second;
    const bool is_gone = registry_.IsGone(uid);
    const bool is_guarded = !is_gone && decisions_.has_exclusive(uid);
    if (is_guarded && std::exchange(pod.retry, std::nullopt)) {
      pod.failures = 0;
      conditions_.QuotaRestored(uid);
      CheckAt(uid, Clock::now());
    }
    if (is_guarded || (!is_gone && !RestoreQuota(uid, pod))) {
      ++entry;
      continue;
    }
    watch_.Remove(uid);
    due_.erase(uid);
    conditions_.QuotaLeftAlone(uid);
    conditions_.QuotaRestored(uid);
    entry = pods_.erase(entry);
  }
}

bool PodCpuGuard::RestoreQuota(const std::string& uid, Pod& pod) {
  if (!pod.lifted || !decisions_.was_shared(uid)) return true;
  const Clock::time_point now = Clock::now();
  if (!pod.retry || *pod.retry <= now) {
    const Result<bool> restored = cgroup::RestorePodQuota(cgroups_, pod.path, *pod.lifted);
    if (restored.ok()) {
      if (*restored) {
        spdlog::info("{} has no exclusive CPUs any more: its CFS quota is {} us again",
                     NameOf(SubjectOf(uid)), *pod.lifted);
      }
      return true;
    }
    const auto pause = options_.first_retry * (int64_t{1} << std::min(pod.failures++, 10));
    pod.retry = now + std::min<Clock::duration>(pause, options_.last_retry);
    conditions_.QuotaNotRestored(SubjectOf(uid), *pod.lifted, restored.error());
  }
  due_[uid] = *pod.retry;
  return false;
}

void PodCpuGuard::CheckAt(const std::string& uid, Clock::time_point time) {
  const auto [due, is_new] = due_.try_emplace(uid, time);
  if (!is_new) due->second = std::min(due->second, time);
}

Subject PodCpuGuard::SubjectOf(const std::string& uid) const {
  return {.container_id = {}, .key = {uid, ""}, .pod = registry_.PodName(uid)};
}

void PodCpuGuard::Check(const std::string& uid, Pod& pod) {
  if (Clock::now() < pod.paused) return CheckAt(uid, pod.paused);
  WatchFiles(uid, pod);
  const bool lifted = CheckQuota(uid, pod);
  const bool restored = CheckShares(uid, pod);
  ReportRepairs(uid, pod, lifted || restored);
  if (IsTooMuch(pod.checks, options_.checks, std::exchange(pod.asked, false))) Pause(uid, pod);
}

bool PodCpuGuard::IsTooMuch(std::deque<Clock::time_point>& events, size_t limit,
                            bool one_more) const {
  const Clock::time_point now = Clock::now();
  if (one_more) events.push_back(now);
  while (!events.empty() && now - events.front() >= options_.window) events.pop_front();
  if (events.size() <= limit) return false;
  events.pop_front();
  return true;
}

void PodCpuGuard::Pause(const std::string& uid, Pod& pod) {
  pod.paused = Clock::now() + options_.pause;
  // A writer without a pause would otherwise wake alignd as often as it writes.
  watch_.Remove(uid);
  pod.watched = false;
  CheckAt(uid, pod.paused);
}

// Where a file cannot be watched, it is read at the checks of the pod's containers. A quota that
// cannot be read is reported by CheckQuota.
void PodCpuGuard::WatchFiles(const std::string& uid, Pod& pod) {
  if (pod.watched) return;
  for (const std::filesystem::path& file : cgroups_.CpuFiles(pod.path)) {
    const Result<Done> watched = watch_.Add(uid, file, IN_MODIFY);
    pod.watched = pod.watched || watched.ok();
    if (!watched.ok()) spdlog::debug("{}: {}", NameOf(SubjectOf(uid)), watched.error().Text());
  }
}

bool PodCpuGuard::MayLift(const std::string& uid, Pod& pod) const {
  const allocation::PodQuota quota = decisions_.quota_of(uid);
  if (quota != allocation::PodQuota::kAsFound) return quota == allocation::PodQuota::kLift;
  if (!pod.found_lifted) {
    const Result<std::optional<int64_t>> now = cgroups_.ReadCpuQuota(pod.path);
    if (!now.ok()) return false;
    pod.found_lifted = !now->has_value();
  }
  return *pod.found_lifted;
}

bool PodCpuGuard::CheckQuota(const std::string& uid, Pod& pod) {
  if (!MayLift(uid, pod)) {
    conditions_.QuotaSettled(uid);
    return false;
  }
  const Result<std::optional<int64_t>> lifted = cgroup::LiftPodQuota(cgroups_, pod.path, uid);
  if (!lifted.ok()) {
    conditions_.QuotaNotLifted(uid, lifted.error(), registry_.PodName(uid));
    return false;
  }
  conditions_.QuotaSettled(uid);
  if (!*lifted) return false;
  pod.lifted = **lifted;
  // The condition stands for the further ones.
  spdlog::log(pod.reported ? spdlog::level::debug : spdlog::level::info, "{}",
              cgroup::LiftedText(NameOf(SubjectOf(uid)), **lifted));
  return true;
}

void PodCpuGuard::ReportRepairs(const std::string& uid, Pod& pod, bool repaired) {
  if (IsTooMuch(pod.repairs, options_.repairs, repaired)) {
    pod.reported = true;
    conditions_.QuotaRewritten(SubjectOf(uid), options_.repairs, options_.window,
                               pod.refused && Clock::now() - *pod.refused < options_.window);
    Pause(uid, pod);
  }
  if (!pod.reported) return;
  if (pod.repairs.empty()) {
    pod.reported = false;
    conditions_.QuotaLeftAlone(uid);
  } else {
    CheckAt(uid, pod.repairs.back() + options_.window);
  }
}

bool PodCpuGuard::CheckShares(const std::string& uid, Pod& pod) {
  const Result<std::string> shares = cgroups_.ReadCpuShares(pod.path);
  if (!shares.ok()) {
    spdlog::debug("{}: {}", NameOf(SubjectOf(uid)), shares.error().Text());
    return false;
  }
  const bool restore = std::exchange(pod.restore, false);
  const Clock::time_point now = Clock::now();
  if (pod.shares.empty() || *shares == pod.shares) {
    pod.shares = *shares;
    pod.changed.reset();
    return false;
  }
  if (!pod.changed) pod.changed = now;
  if (restore) {
    const Result<Done> restored = cgroups_.WriteCpuShares(pod.path, pod.shares);
    if (!restored.ok()) {
      spdlog::warn("{}: its CPU shares stay {} instead of {}: {}", NameOf(SubjectOf(uid)), *shares,
                   pod.shares, restored.error().Text());
      return true;  // it was tried
    }
    // The kubelet writes them at each try.
    spdlog::log(std::exchange(pod.logged, true) ? spdlog::level::debug : spdlog::level::info,
                "{}: its CPU shares are {} again, not {}: its resize is refused",
                NameOf(SubjectOf(uid)), pod.shares, *shares);
    pod.changed.reset();
    return true;
  }
  if (now - *pod.changed >= options_.settle) {
    pod.shares = *shares;
    pod.changed.reset();
  } else {
    CheckAt(uid, *pod.changed + options_.settle);
  }
  return false;
}

}  // namespace alignd::reconcile
