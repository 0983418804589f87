// Compares containers' cgroups with the applied CPU sets, and restores a set that another program
// has changed.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "cgroup/cgroup_tree.h"
#include "host/event_loop.h"
#include "host/file_watch.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/known_cgroup.h"
#include "reconcile/pod_cpu_guard.h"
#include "reconcile/runtime_client.h"
#include "reconcile/systemd_cpus.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// A container and the path of its cgroup. A value.
struct ContainerCgroup {
  Subject container;
  std::string path;
};

// Thread-safe. Its work runs on a task queue, which may block: it reads cgroup files. It
// waits for neither the runtime nor decisions. It runs when a process writes to a watched cpuset;
// changes by the kernel itself are found by the next check of all containers. A check of 250
// containers takes about 5 ms of CPU time.
class CpusetGuard {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::chrono::milliseconds round{5'000};  // between two checks of all containers
    std::chrono::milliseconds confirm{30};   // a wrong cpuset is read again after this
    // More repairs of one container than this within `window` are a conflict.
    size_t repairs{5};
    std::chrono::milliseconds window{60'000};
    // After a conflict the container is left alone for this long; doubled after each further
    // conflict, at most `longest_backoff` times.
    std::chrono::milliseconds backoff{60'000};
    int longest_backoff{4};
    std::chrono::milliseconds ask_again{30'000};  // for a cgroup that the runtime did not report
    // The cgroups above a container are read this often while its set is not applied.
    std::chrono::milliseconds look_above{1'000};
    // A wrong cpuset was found: the kernel takes CPUs that go offline out of cgroups of version 1.
    std::function<void()> suspected = {};  // on `io`; may be null
  };

  // `pods` guards the pods of containers with exclusive CPUs; null: pods keep their quota.
  // `apply_again` requests updates of the containers whose set the registry has as not applied, and
  // a check of the containers that wait for their CPUs. All references outlive this object.
  CpusetGuard(TaskQueue& io, std::shared_ptr<host::EventLoop> events, const admission::Node& node,
              const allocation::AllocationManager& allocation, ContainerRegistry& registry,
              RuntimeClient& runtime, const cgroup::CgroupTree& cgroups, Conditions& conditions,
              PodCpuGuard* pods, std::function<void()> apply_again, Options options);
  CpusetGuard(const CpusetGuard&) = delete;
  CpusetGuard& operator=(const CpusetGuard&) = delete;
  ~CpusetGuard() { Stop(); }

  void Start();
  // Call after RuntimeClient::Stop, so that no question to the runtime is under way.
  void Stop() { task_.Stop(); }

  // The containers whose cgroups are known. On the queue only.
  std::vector<ContainerCgroup> Cgroups() const;

  // The container's cgroup; nullopt: not known yet. On the queue only.
  std::optional<KnownCgroup> CgroupOf(const std::string& id) const;

  // Call after containers were created, removed or started.
  void Look() EXCLUDES(mutex_);

 private:
  // For conditions whose end the guard sees itself.
  static constexpr std::chrono::hours kUntilItEnds{24 * 365};

  struct Drift {
    std::string was;
    Clock::time_point correct_until;
    Clock::time_point noticed;
  };
  struct Guarded {
    ContainerKey key;
    std::optional<std::string> path;  // of its cgroup; nullopt: not known yet
    Clock::time_point ask;            // for the path, not earlier than this
    // The cgroup, as long as its files are watched; else null.
    std::shared_ptr<const cgroup::CpusetCgroup> watched;
    Clock::time_point correct;   // when the cpuset was last seen to be correct
    bool suspect = false;        // the last check found a wrong cpuset
    Clock::time_point noticed;   // that, first
    std::optional<Drift> drift;  // the cpuset is wrong
    std::deque<Clock::time_point> repairs;
    int backoffs = 0;
    Clock::time_point backoff_until;
    bool kept = false;  // moved by another program, as the registry knows
    std::string cut;    // the reported limit of a cgroup above; empty: none
    // When the cgroups above are read, if the set is not applied until then. nullopt: it is
    // applied.
    std::optional<Clock::time_point> look_above;
  };

  // One pass; answers when the next one is due.
  Clock::time_point Run() EXCLUDES(mutex_);
  // Takes over the containers of the registry.
  void Sync();
  // Asks the runtime for the cgroups of new containers.
  void AskForPaths() EXCLUDES(mutex_);
  void TakePaths() EXCLUDES(mutex_);
  // Has the containers checked whose files were written to.
  void TakeWrites() EXCLUDES(mutex_);
  // Whether alignd's own write was proved after `noticed`: no check is needed.
  bool IsProved(const std::string& id, Clock::time_point noticed);
  void Check(const std::string& id);
  // The container's cgroup; its files are watched from now on. null: there is none yet, or it
  // cannot be opened.
  std::shared_ptr<const cgroup::CpusetCgroup> Open(const std::string& id, Guarded& container);
  void FoundCorrect(const std::string& id, Guarded& container,
                    const admission::Assignment& assignment, const cgroup::Cpuset& now);
  void FoundWrong(const std::string& id, Guarded& container,
                  const admission::Assignment& assignment, const cgroup::Cpuset& now);
  // Another program keeps moving the container to `cpus`: it is not restored for now.
  void LeaveOn(const std::string& id, Guarded& container, const CpuSet& cpus);
  // The cpuset is correct: the other program may have stopped.
  void CheckConflictEnded(const std::string& id, Guarded& container);

  // --- Cgroups above containers that are narrower: cpuset_limits.cc.

  bool IsCutByPartition(const std::string& path, const admission::Assignment& assignment) const;
  // Of a cgroup above that is narrower, as the end of a sentence; empty: there is none.
  std::string DescribeAbove(const std::string& id, const std::string& path,
                            const CpuSet& cpus) const;
  // The container has its set: reports that the kernel lets it use less, or no longer does.
  void ReportCut(const std::string& id, Guarded& container, const admission::Assignment& assignment,
                 const cgroup::Cpuset& now);
  // The container's set is not applied: reports whether a cgroup above is the cause.
  void FindCauseAbove(const std::string& id, Guarded& container,
                      const admission::Assignment& assignment);
  // `sign`: what is reported from now on; empty: nothing.
  void SetCut(const std::string& id, Guarded& container, std::string sign);
  // The container is gone.
  void CutEnded(const std::string& id);

  Subject SubjectOf(const std::string& id, const Guarded& container) const;
  void CheckSoon(const std::string& id, std::chrono::milliseconds pause);

  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  const cgroup::CgroupTree& cgroups_;
  Conditions& conditions_;
  PodCpuGuard* const pods_;
  const std::function<void()> apply_again_;
  const Options options_;

  // Used by the task only.
  std::map<std::string, Guarded> guarded_;        // by container id
  std::map<std::string, Clock::time_point> due_;  // by container id
  // Containers whose files were written to, and when that was noticed last. They wait for the end
  // of alignd's own write.
  std::map<std::string, Clock::time_point> written_;
  SystemdCpus systemd_;
  Clock::time_point next_round_;

  Mutex mutex_;
  bool look_ GUARDED_BY(mutex_) = true;
  std::map<std::string, Clock::time_point> changed_ GUARDED_BY(mutex_);  // as written_
  std::set<std::string> asked_ GUARDED_BY(mutex_);  // for their cgroups, at the runtime
  std::vector<std::pair<std::string, Result<std::string>>> answers_ GUARDED_BY(mutex_);

  RecurringTask task_;
  host::FileWatch watch_;  // keys: container ids; its callback uses the task
};

}  // namespace alignd::reconcile
