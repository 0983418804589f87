// Follows which CPUs of the machine are online.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/cpu_set.h"
#include "allocation/allocation_manager.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe; works on the queue. Reads the kernel's list of online CPUs again and again,
// passes changes on to the allocation manager, and reports CPUOffline. sysfs has no inotify events.
// The kernel's uevents would come at once, but may be lost, are not sent for each way in which a
// CPU goes offline, and need one more kind of socket in the sandbox of the unit. The list is one
// file of some bytes, which the kernel has in memory.
//
// CPUs that the machine does not have are only logged: their topology is read at the start, as the
// kubelet does it.
class OnlineCpus {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // Of the machine; nullopt: its CPUs are always online.
    std::optional<std::filesystem::path> root = {};
    std::chrono::milliseconds period{1'000};
  };

  // All references outlive this object.
  OnlineCpus(TaskQueue& io, const admission::Node& node, allocation::AllocationManager& allocation,
             const ContainerRegistry& registry, Conditions& conditions, Options options);
  OnlineCpus(const OnlineCpus&) = delete;
  OnlineCpus& operator=(const OnlineCpus&) = delete;
  ~OnlineCpus() { Stop(); }

  void Start();
  void Stop() { task_.Stop(); }

  // The list may have changed.
  void Look();
  // A new snapshot is published.
  void StateChanged() {
    if (has_offline_) task_.RunSoon();
  }

 private:
  Clock::time_point Run();
  void Read();
  void Report();

  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  const ContainerRegistry& registry_;
  Conditions& conditions_;
  const Options options_;
  std::atomic<bool> has_offline_ = false;
  std::atomic<bool> look_ = false;

  // Used by the task only.
  Clock::time_point next_read_{};
  CpuSet offline_;
  CpuSet unknown_;       // online, and not of the machine
  std::string problem_;  // of the last reading; empty: none
  std::vector<OfflineCpus> reported_;

  RecurringTask task_;
};

}  // namespace alignd::reconcile
