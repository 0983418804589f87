// Takes CPUs from running containers by direct writes to their cgroups.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/shared_pool.h"
#include "cgroup/cgroup_tree.h"
#include "cgroup/narrow.h"
#include "reconcile/container_registry.h"
#include "reconcile/known_cgroup.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue, which may block, and if it is long, on a thread
// beside it too: the container for which the CPUs are taken waits for it. One container takes about
// 0.1 ms, and a call of systemd if its cgroup is a unit; an update by the runtime takes about 10
// ms. Units of systemd are narrowed on the queue alone: on the same queue, the guard gives systemd
// the set that was applied to a container (SystemdCpus), and no narrowing may come in between.
class CpusetNarrower {
 public:
  // The container's cgroup; nullopt: it is not known yet. Called on the queue.
  using FindCgroup = std::function<std::optional<KnownCgroup>(const std::string& container_id)>;
  // The containers that could not be narrowed. Called on one of the two threads.
  using NarrowDone = std::function<void(const std::set<std::string>& refused)>;

  // All references outlive this object.
  CpusetNarrower(TaskQueue& io, ContainerRegistry& registry, const cgroup::CgroupTree& cgroups,
                 FindCgroup find);
  CpusetNarrower(const CpusetNarrower&) = delete;
  CpusetNarrower& operator=(const CpusetNarrower&) = delete;
  ~CpusetNarrower() { Stop(); }

  // A pass may be dropped, and its `done` with it.
  void Stop() {
    first_.Stop();
    second_.Stop();
  }

  // Narrows the containers to these sets, and marks them in the registry. One pass at a time: call
  // it again only after `done`.
  void Narrow(std::vector<admission::CpuSetChange> changes, NarrowDone done) EXCLUDES(mutex_);

 private:
  struct Found {
    admission::CpuSetChange change;
    KnownCgroup cgroup;
    Result<Done> prepared = Done{};  // set in systemd, if it is a unit
  };

  // On the queue: finds the cgroups, then works.
  RecurringTask::Clock::time_point Begin() EXCLUDES(mutex_);
  // Narrows some containers, and ends the pass if these were the last.
  void Work(RecurringTask& task) EXCLUDES(mutex_);
  // Returns those that could not be narrowed.
  std::set<std::string> NarrowTogether(std::vector<Found> found);
  bool IsUnit(const Found& found) const;
  // Sets the CPUs in systemd first. If a daemon-reload then comes between, it writes the new set.
  void SetInSystemd(std::vector<Found>& found) EXCLUDES(mutex_);
  Result<cgroup::Narrowing> Write(const Found& found) const;
  // Ends what BeginNarrow began. Whether the container is on these CPUs alone now.
  bool Prove(const Found& found, const Result<cgroup::Narrowing>& narrowing);
  void Note(const std::string& id, const Result<CpuSet>& applied);
  // Whether the kernel keeps the container outside its set.
  void NoteAllowed(const std::string& id, const std::string& path);

  ContainerRegistry& registry_;
  const cgroup::CgroupTree& cgroups_;
  const FindCgroup find_;

  Mutex mutex_;
  std::vector<admission::CpuSetChange> changes_ GUARDED_BY(mutex_);  // not begun
  std::deque<Found> found_ GUARDED_BY(mutex_);                       // not narrowed yet
  int working_ GUARDED_BY(mutex_) = 0;                               // threads
  bool is_shared_ GUARDED_BY(mutex_) = false;                        // by both threads
  std::set<std::string> refused_ GUARDED_BY(mutex_);
  NarrowDone done_ GUARDED_BY(mutex_);               // null: no pass
  bool has_begun_ GUARDED_BY(mutex_) = false;        // none of the pass is in changes_
  std::optional<Error> systemd_ GUARDED_BY(mutex_);  // it took over nothing in this pass
  bool fails_ GUARDED_BY(mutex_) = false;            // the last write did

  TaskQueue beside_{"narrow", TaskQueue::kLinger};
  RecurringTask first_;   // on the queue
  RecurringTask second_;  // on the thread beside it; does nothing if the system has no thread
};

}  // namespace alignd::reconcile
