// Releases what stopped and removed pods are assigned.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "allocation/allocation_manager.h"
#include "reconcile/container_registry.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue and waits for neither the runtime nor decisions.
class PodReleaser {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    ContainerRegistry::Grace grace;           // how long a stopped pod keeps its assignment
    std::chrono::milliseconds again{10'000};  // after a release that did not free everything
    // "namespace/name" of a pod of before the restart, if it is known; may be null.
    std::function<std::string(const std::string& pod_uid)> name_before = {};
  };

  // All references outlive this object. The callbacks of `allocation` end before it does.
  PodReleaser(TaskQueue& background, allocation::AllocationManager& allocation,
              const ContainerRegistry& registry, Options options);
  PodReleaser(const PodReleaser&) = delete;
  PodReleaser& operator=(const PodReleaser&) = delete;
  ~PodReleaser() { Stop(); }

  void Start() { Look(); }
  void Stop() { task_.Stop(); }

  // Releases the removed pod, unless it is present again when the decision thread comes to the
  // release. Does not wait.
  void Release(const std::string& pod_uid);

  // Call after sandboxes have stopped, or calls have ended for pods without a running sandbox.
  void Look() EXCLUDES(mutex_);

 private:
  // "namespace/name"; empty: not known. For the last time: it is not kept after that.
  std::string TakeName(const std::string& pod_uid) EXCLUDES(mutex_);

  struct Request {
    Clock::time_point due;
    Clock::time_point again;  // not valid once the pod has run and stopped again
  };
  // The answer of AllocationManager::KnownPods, and for which Look it was asked.
  struct Known {
    uint64_t look = 0;
    std::set<std::string> pods;
  };

  // Answers when the next pod is due.
  Clock::time_point ReleaseDue() EXCLUDES(mutex_);
  // The answer that has arrived since the last run; nullopt: none. If a Look has come after the
  // question, asks again, after which ReleaseDue runs again. The outdated answer is used as well:
  // while pods keep stopping, every answer is outdated.
  std::optional<std::set<std::string>> KnownPods() EXCLUDES(mutex_);

  allocation::AllocationManager& allocation_;
  const ContainerRegistry& registry_;
  const Options options_;

  Mutex mutex_;
  uint64_t looks_ GUARDED_BY(mutex_) = 0;
  bool asking_ GUARDED_BY(mutex_) = false;
  std::optional<Known> known_ GUARDED_BY(mutex_);
  // Of pods that have stopped, by UID: the registry forgets the name with the last sandbox.
  std::map<std::string, std::string> names_ GUARDED_BY(mutex_);

  std::map<std::string, Request> requests_;  // by pod UID; used by the task only
  RecurringTask task_;
};

}  // namespace alignd::reconcile
