#include "reconcile/pod_releaser.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "alignd/admission/node_state.h"

namespace alignd::reconcile {

PodReleaser::PodReleaser(allocation::AllocationManager& allocation,
                         const ContainerRegistry& registry, Options options)
    : allocation_(allocation), registry_(registry), options_(options) {}

PodReleaser::~PodReleaser() { Stop(); }

void PodReleaser::Start() {
  thread_ = std::thread([this] { Run(); });
}

void PodReleaser::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
}

void PodReleaser::Look() {
  {
    const MutexLock lock(mutex_);
    look_ = true;
  }
  wake_.NotifyAll();
}

void PodReleaser::Run() {
  std::optional<Clock::time_point> next;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && !look_ && !(next && *next <= Clock::now())) {
        if (next) {
          wake_.WaitUntil(mutex_, *next);
        } else {
          wake_.Wait(mutex_);
        }
      }
      if (stopping_) return;
      look_ = false;
    }
    next = ReleaseDue();
  }
}

std::optional<PodReleaser::Clock::time_point> PodReleaser::ReleaseDue() {
  const std::map<std::string, Clock::time_point> stopped = registry_.ReleaseTimes(options_.grace);
  std::erase_if(asked_, [&stopped](const auto& entry) {
    const auto pod = stopped.find(entry.first);
    return pod == stopped.end() || pod->second != entry.second.due;
  });
  std::optional<Clock::time_point> next;
  if (stopped.empty()) return next;
  // A kubelet keeps the sandbox of a pod that has completed for as long as the pod is there.
  const std::set<std::string> known = allocation_.KnownPods();
  for (const auto& [uid, due] : stopped) {
    if (!known.contains(uid)) continue;
    const auto asked = asked_.find(uid);
    Clock::time_point at = asked == asked_.end() ? due : asked->second.again;
    if (const Clock::time_point now = Clock::now(); at <= now) {
      Release(uid);
      at = now + options_.again;
      asked_[uid] = {due, at};
    }
    next = std::min(next.value_or(at), at);
  }
  return next;
}

void PodReleaser::Release(const std::string& pod_uid) {
  const bool holds = admission::PodsIn(allocation_.snapshot()->state).contains(pod_uid);
  const std::string name = registry_.PodName(pod_uid);
  const std::string pod = name.empty() ? pod_uid : name + " (" + pod_uid + ")";
  const auto is_gone = std::make_shared<bool>(false);
  allocation_.ReleasePod(
      pod_uid,
      [pod, holds, is_gone](const Result<Done>& result) {
        if (!result.ok()) {
          spdlog::error("release of pod {}: {}", pod, result.error().Text());
        } else if (*is_gone && holds) {  // else it was only remembered
          spdlog::info("pod {} is gone: its CPUs, memory and devices are free again", pod);
        }
      },
      [&registry = registry_, pod_uid, is_gone] { return *is_gone = registry.IsGone(pod_uid); });
}

}  // namespace alignd::reconcile
