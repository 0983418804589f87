// Takes CPUs from running containers by direct writes to their cgroups.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/shared_pool.h"
#include "cgroup/cgroup_tree.h"
#include "reconcile/container_registry.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue, which may block. One container takes about 0.1 ms,
// and a call of systemd if its cgroup is a unit; an update by the runtime takes about 10 ms.
class CpusetNarrower {
 public:
  // The path of the container's cgroup; nullopt: it is not known yet. Called on the queue.
  using FindCgroup = std::function<std::optional<std::string>(const std::string& container_id)>;
  // The containers that could not be narrowed. Called on the queue.
  using NarrowDone = std::function<void(std::set<std::string> refused)>;

  // All references outlive this object.
  CpusetNarrower(TaskQueue& io, ContainerRegistry& registry, const cgroup::CgroupTree& cgroups,
                 FindCgroup find);
  CpusetNarrower(const CpusetNarrower&) = delete;
  CpusetNarrower& operator=(const CpusetNarrower&) = delete;
  ~CpusetNarrower() { Stop(); }

  // A requested pass may be dropped, and its `done` with it.
  void Stop() { task_.Stop(); }

  // Narrows the containers to these sets, and marks them in the registry. One pass at a time: call
  // it again only after `done`.
  void Narrow(std::vector<admission::CpuSetChange> changes, NarrowDone done) EXCLUDES(mutex_);

 private:
  struct Begun {
    admission::CpuSetChange change;
    std::string path;       // of its cgroup
    Result<Done> prepared;  // set in systemd, if it is a unit
  };

  RecurringTask::Clock::time_point Run() EXCLUDES(mutex_);
  // Sets the CPUs in systemd first. If a daemon-reload then comes between, it writes the new set.
  void SetInSystemd(std::vector<Begun>& begun) const;
  // Whether the container is on these CPUs alone now.
  bool NarrowOne(const Begun& begun);
  void Note(const std::string& id, const Result<Done>& narrowed);
  // Whether the kernel keeps the container outside its set.
  void NoteAllowed(const std::string& id, const std::string& path);

  ContainerRegistry& registry_;
  const cgroup::CgroupTree& cgroups_;
  const FindCgroup find_;

  Mutex mutex_;
  std::vector<admission::CpuSetChange> changes_ GUARDED_BY(mutex_);
  NarrowDone done_ GUARDED_BY(mutex_);
  bool fails_ = false;  // the last write did; used by the task only

  RecurringTask task_;
};

}  // namespace alignd::reconcile
