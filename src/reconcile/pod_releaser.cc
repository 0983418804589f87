#include "reconcile/pod_releaser.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "alignd/admission/node_state.h"
#include "host/log_event.h"

namespace alignd::reconcile {

PodReleaser::PodReleaser(TaskQueue& background, allocation::AllocationManager& allocation,
                         const ContainerRegistry& registry, Options options)
    : allocation_(allocation),
      registry_(registry),
      options_(options),
      task_(background, [this] { return ReleaseDue(); }) {}

void PodReleaser::Look() {
  {
    const MutexLock lock(mutex_);
    ++looks_;
  }
  task_.RunSoon();
}

PodReleaser::Clock::time_point PodReleaser::ReleaseDue() {
  const std::map<std::string, Clock::time_point> stopped = registry_.ReleaseTimes(options_.grace);
  std::erase_if(requests_, [&stopped](const auto& entry) {
    const auto pod = stopped.find(entry.first);
    return pod == stopped.end() || pod->second != entry.second.due;
  });
  Clock::time_point next = RecurringTask::kNever;
  if (stopped.empty()) return next;
  for (const auto& [uid, due] : stopped) {
    const std::string name = registry_.PodName(uid);
    const MutexLock lock(mutex_);
    if (!name.empty()) names_[uid] = name;
  }
  // The kubelet keeps the sandbox of a completed pod for as long as the pod exists.
  const std::optional<std::set<std::string>> known = KnownPods();
  if (!known) return next;
  for (const auto& [uid, due] : stopped) {
    if (!known->contains(uid)) continue;
    const auto request = requests_.find(uid);
    Clock::time_point at = request == requests_.end() ? due : request->second.again;
    if (const Clock::time_point now = Clock::now(); at <= now) {
      Release(uid);
      at = now + options_.again;
      requests_[uid] = {due, at};
    }
    next = std::min(next, at);
  }
  return next;
}

std::optional<std::set<std::string>> PodReleaser::KnownPods() {
  uint64_t look = 0;
  std::optional<std::set<std::string>> pods;
  {
    const MutexLock lock(mutex_);
    std::optional<Known> known = std::exchange(known_, std::nullopt);
    const bool is_new = known && known->look == looks_;
    if (known) pods = std::move(known->pods);
    if (is_new || std::exchange(asking_, true)) return pods;
    look = looks_;
  }
  allocation_.KnownPods([this, look](std::set<std::string> answer) {
    {
      const MutexLock lock(mutex_);
      asking_ = false;
      known_ = Known{look, std::move(answer)};
    }
    task_.RunSoon();
  });
  return pods;
}

std::string PodReleaser::TakeName(const std::string& pod_uid) {
  std::string name = registry_.PodName(pod_uid);
  {
    const MutexLock lock(mutex_);
    const auto kept = names_.extract(pod_uid);
    if (name.empty() && kept) name = kept.mapped();
  }
  if (!name.empty()) return name;
  const auto decided = allocation_.decisions().Newest(pod_uid, 1);
  if (!decided.empty() && !decided[0]->name.empty()) {
    return decided[0]->name_space + "/" + decided[0]->name;
  }
  return options_.name_before ? options_.name_before(pod_uid) : "";
}

void PodReleaser::Release(const std::string& pod_uid) {
  const bool is_assigned = admission::PodsIn(allocation_.snapshot()->state).contains(pod_uid);
  const std::string name = TakeName(pod_uid);
  const std::string pod = name.empty() ? pod_uid : name + " (" + pod_uid + ")";
  const auto is_gone = std::make_shared<bool>(false);
  allocation_.ReleasePod(
      pod_uid,
      [pod, pod_uid, name, is_assigned, is_gone](const Result<Done>& result) {
        host::LogFields fields = {{"POD_UID", pod_uid}};
        host::AddPodName(name, fields);
        if (!result.ok()) {
          host::LogEvent(host::kLogPodFailed, spdlog::level::err, fields,
                         "release of pod " + pod + ": " + result.error().Text());
        } else if (*is_gone && is_assigned) {
          host::LogEvent(host::kLogPodReleased, spdlog::level::info, fields,
                         "pod " + pod + " has ended: its CPUs, memory and devices are free again");
        }
      },
      [&registry = registry_, pod_uid, is_gone] { return *is_gone = registry.IsGone(pod_uid); });
}

}  // namespace alignd::reconcile
