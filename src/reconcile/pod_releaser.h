// Gives back what pods held that are gone, or that have stopped and do not come back.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "allocation/allocation_manager.h"
#include "reconcile/container_registry.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Thread-safe. One thread of its own, which sleeps until a stopped pod's time has come; it never
// waits for the runtime.
class PodReleaser {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    ContainerRegistry::Grace grace;           // a stopped pod keeps its grant this long
    std::chrono::milliseconds again{10'000};  // after a release that left something
  };

  // All references outlive this object.
  PodReleaser(allocation::AllocationManager& allocation, const ContainerRegistry& registry,
              Options options);
  PodReleaser(const PodReleaser&) = delete;
  PodReleaser& operator=(const PodReleaser&) = delete;
  ~PodReleaser();

  void Start();
  void Stop();

  // The pod is gone: releases it, unless it is there again when it is its turn. Does not wait.
  void Release(const std::string& pod_uid);

  // Sandboxes have stopped, or calls have ended for pods without one that runs.
  void Look();

 private:
  // A release that was asked for.
  struct Asked {
    Clock::time_point due;
    Clock::time_point again;  // unless the pod has come back and stopped once more
  };

  void Run();
  // Answers when the next one is due.
  std::optional<Clock::time_point> ReleaseDue();

  allocation::AllocationManager& allocation_;
  const ContainerRegistry& registry_;
  const Options options_;

  Mutex mutex_;
  CondVar wake_;
  bool look_ GUARDED_BY(mutex_) = true;
  bool stopping_ GUARDED_BY(mutex_) = false;

  // The own thread's.
  std::map<std::string, Asked> asked_;  // by pod UID
  std::thread thread_;
};

}  // namespace alignd::reconcile
