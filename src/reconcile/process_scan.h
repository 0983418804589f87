// Finds processes of containers that are outside their container's cgroup and may run on the
// exclusive CPUs of another container.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "allocation/allocation_manager.h"
#include "cgroup/cgroup_tree.h"
#include "reconcile/conditions.h"
#include "reconcile/cpuset_guard.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue, which may block: it reads /proc in parts, so that
// other work of the queue waits for milliseconds at most.
//
// A process belongs to a container if a scan saw it in the container's cgroup or in one below it,
// or if it descends from such a process. Processes of the host are not looked at: exclusive CPUs
// are exclusive among containers, as in the kubelet. A process is reported if two scans in a row
// find it outside: a runtime moves the process of an exec into the cgroup only after it has been
// made. Not seen: a process that is moved before a scan has seen it and whose parent is no process
// of the container; one that was moved before alignd started, unless its parent still belongs to
// the container; a single thread (cgroup v1) of a process.
class ProcessScan {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::filesystem::path proc = "/proc";
    std::chrono::milliseconds period{10'000};  // between the end of a scan and the next one
    std::chrono::milliseconds confirm{1'000};  // likewise, after a scan that found a new process
    size_t at_once{256};                       // processes in one part
    size_t max_processes{100'000};             // of a scan; the others are not looked at
  };

  // `containers` is called on the queue. All references outlive this object.
  ProcessScan(TaskQueue& io, const admission::Node& node,
              const allocation::AllocationManager& allocation, const cgroup::CgroupTree& cgroups,
              Conditions& conditions, std::function<std::vector<ContainerCgroup>()> containers,
              Options options);
  ProcessScan(const ProcessScan&) = delete;
  ProcessScan& operator=(const ProcessScan&) = delete;
  ~ProcessScan() { Stop(); }

  void Start();
  void Stop() { task_.Stop(); }

 private:
  // A process as /proc shows it.
  struct Process {
    int parent = 0;
    uint64_t started = 0;  // with the pid, it identifies the process
    std::string name;
    std::string cgroup;  // its path; empty: /proc names none
  };
  using Owner = std::shared_ptr<const ContainerCgroup>;
  // A process of a container, as of the last scan. It may outlive its container.
  struct Owned {
    uint64_t started = 0;
    Owner owner;
    bool outside = false;  // and may run on exclusive CPUs of another container
  };
  enum class Phase { kPause, kReading, kChecking };

  // One part of a scan; answers when the next one is due.
  Clock::time_point Run();
  // False: there is nothing to look for.
  bool Begin();
  // Reads the next processes, and finds the owners once all have been read.
  void ReadSome();
  void FindOwners();
  // Checks the next processes of containers.
  void CheckSome();
  // Reports what was found. Answers whether a process is newly outside.
  bool End();
  // False: it has ended, as has one that only waits for its parent to notice (a zombie).
  bool ReadProcess(int pid, Process& process) const;
  // The container in whose cgroup, or below whose cgroup, that path is; null: none.
  Owner ContainerAt(std::string_view path) const;
  // The container that the process belongs to; null: none. Remembers what it finds on the way.
  Owner OwnerOf(int pid);
  // The exclusive CPUs of other containers that the process may use, and their holders.
  bool IsOutside(int pid, const ContainerCgroup& owner, OutsideProcess& found) const;

  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  const cgroup::CgroupTree& cgroups_;
  Conditions& conditions_;
  const std::function<std::vector<ContainerCgroup>()> containers_;
  const Options options_;

  // Used by the task only. Of the scan under way, except `owned_`.
  Phase phase_ = Phase::kPause;
  std::vector<Owner> containers_now_;
  std::map<std::string, Owner, std::less<>> by_path_;  // the same, by the paths of their cgroups
  std::vector<int> pids_;                              // to be read or checked, the next one last
  std::map<int, Process> processes_;                   // that were read
  std::map<int, Owner> owners_;                        // null: of no container
  std::map<int, Owned> found_;
  std::vector<OutsideProcess> outside_;
  std::map<int, Owned> owned_;  // of the last scan

  RecurringTask task_;
};

}  // namespace alignd::reconcile
