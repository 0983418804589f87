// Applies CPU sets to running containers, and decides when a container may start.
//
// A container that must leave CPUs is narrowed first, by a write to its cgroup. The runtime is
// updated later, when no call of a client is under way: its record, and with it its next update,
// must agree. Where the write is not possible or proves nothing, the runtime's update moves the
// container. docs/architecture.md has the order that keeps exclusive CPUs exclusive.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/cpuset_narrower.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue and never waits for the runtime: each container is
// updated by a call of its own. A call that hangs delays only the containers that need those CPUs.
// A deferred update that hangs delays the other deferred ones by `slow`.
class CpusetUpdater {
 public:
  struct Options {
    std::chrono::milliseconds start_patience{10'000};  // longest wait of a start
    std::chrono::milliseconds first_retry{1'000};      // after a failed update; then doubled
    std::chrono::milliseconds last_retry{30'000};      // up to this
    // This many updates are under way at once. With hundreds, the runtime would serve them all
    // before the container for which they free CPUs. Updates that take longer than `slow` do not
    // count: they hang.
    size_t max_at_once = 16;
    std::chrono::milliseconds slow{1'000};
    // Narrowing takes no longer than this, or the runtime is asked to move the containers.
    std::chrono::milliseconds narrow_patience{100};
    // Deferred updates, those of containers that need not leave any CPU, go one by one. Each begins
    // when no call of a client has been under way for `quiet`, or after `defer_at_most`.
    std::chrono::milliseconds quiet{200};
    std::chrono::milliseconds defer_at_most{10'000};
    // A container that has waited this long for CPUs that another one has yet to leave is shown as
    // a condition.
    std::chrono::milliseconds wait_shown{3'000};
  };

  using Clock = std::chrono::steady_clock;
  // Requests a listing of the runtime; Listed follows.
  using Relist = std::function<void()>;

  // All references outlive this object.
  CpusetUpdater(TaskQueue& background, const admission::Node& node,
                allocation::AllocationManager& allocation, ContainerRegistry& registry,
                RuntimeClient& runtime, CpusetNarrower& narrower, Conditions& conditions,
                Relist relist, Options options);
  CpusetUpdater(const CpusetUpdater&) = delete;
  CpusetUpdater& operator=(const CpusetUpdater&) = delete;
  ~CpusetUpdater() { Stop(); }

  void Start() { task_.RunSoon(); }
  // Waiting callers get kUnavailable. Call after RuntimeClient::Stop and CpusetNarrower::Stop, so
  // that no update is under way.
  void Stop() EXCLUDES(mutex_);

  // Call after a change that may need new CPU sets.
  void Nudge() { task_.RunSoon(); }

  // The runtime could not be listed. Once it can, what has failed is tried again without delay.
  void RuntimeFailed() EXCLUDES(mutex_);
  // The registry has the listing that the runtime began at `began`.
  void Listed(Clock::time_point began) EXCLUDES(mutex_);

  // Answers when it is safe to start the container: its current CPU set has been applied, and no
  // other container is on its exclusive CPUs. At once if that is so already; otherwise later, on
  // any thread. If the container is not known, the runtime is listed first.
  // `named`: its id, or the beginning of it, which is resolved again at each check.
  // Errors: kUnavailable after `start_patience`, naming the containers that could not be moved, and
  // why.
  void BeforeStart(const std::string& named, std::function<void(Result<Done>)> done)
      EXCLUDES(mutex_);

 private:
  struct Waiter {
    std::string named;
    std::function<void(Result<Done>)> done;
    Clock::time_point since;
    Clock::time_point deadline;
    bool listed = false;  // the runtime, since the wait began
    bool fresh = true;    // not checked yet: the containers in its way are updated without delay
  };
  struct Applying {
    Clock::time_point since;
    bool deferred = false;
  };
  struct Failure {
    int times = 0;
    std::string error;  // the last one
    Clock::time_point retry;
  };
  // Until other containers have left CPUs of the container.
  struct Wait {
    Clock::time_point since;
    std::string why{};
    std::string shown{};  // as a condition; empty: not yet
  };

  Clock::time_point Run() EXCLUDES(mutex_);
  // A change of a container's set, and where the container is.
  struct Change {
    std::string id;
    CpuSet cpuset;
    ContainerRegistry::Footprint now;
    bool applying = false;      // an update of it is under way
    bool narrow = false;        // it must leave CPUs, and a write to its cgroup can take them away
    bool deferred = false;      // it need not leave any CPU
    bool is_exclusive = false;  // `cpuset` is a part of its exclusive CPUs; set last
  };

  // --- What is done next: cpuset_plan.cc.

  // The changes of all containers, in the order of admission::CpuSetChanges.
  std::vector<Change> Changes(const admission::NodeState& state) const EXCLUDES(mutex_);
  // Of all changes, the updates that may begin now. Not among them: containers that are being
  // updated or narrowed, that failed recently, or whose new CPUs another container has yet to
  // leave; nor more than `max_at_once`.
  std::vector<Change> DueChanges(const admission::NodeState& state, std::vector<Change> changes,
                                 bool& asked_for) EXCLUDES(mutex_);
  // By the id of a container whose new CPUs others of `footprints` have yet to leave: these.
  using Footprints = std::vector<ContainerRegistry::Footprint>;
  using Waits = std::map<std::string, std::vector<const ContainerRegistry::Footprint*>>;
  Waits TooEarly(const admission::NodeState& state, const std::vector<Change>& changes,
                 const Footprints& footprints) const;
  // Has containers with exclusive CPUs that wait in the shared pool leave what is not in it (any
  // more).
  void StepAside(const admission::NodeState& state, const Footprints& footprints,
                 std::vector<Change>& changes, Waits& waits) const;
  // If containers wait for each other, has one of them go on, by a step that is in the way of none
  // of them.
  void BreakCycle(const admission::NodeState& state, const Footprints& footprints,
                  std::vector<Change>& changes, Waits& waits) const REQUIRES(mutex_);
  // Where the container of a cycle goes first; empty: there is no such place.
  CpuSet FirstStep(const admission::NodeState& state, const Footprints& footprints,
                   const Change& change) const;
  // Shows the waits of containers with exclusive CPUs that last.
  void NoteWaits(const admission::NodeState& state, const std::vector<Change>& changes,
                 const Waits& waits, Clock::time_point now) REQUIRES(mutex_);
  // The exclusive CPUs on which the container is not yet, after a resize.
  static CpuSet Added(const admission::NodeState& state, const Change& change);
  // Whether `other` may be on CPUs that are exclusive to the container of `key`. `at_start`: it is
  // not known where that container is.
  static bool IsOn(const admission::NodeState& state, const ContainerRegistry::Footprint& other,
                   const ContainerKey& key, const CpuSet& cpus, bool at_start);
  // Leaves of the deferred changes the one that may begin now, if any.
  void HoldDeferred(std::vector<Change>& changes, Clock::time_point now) REQUIRES(mutex_);
  // How many more updates may begin so that at most `limit` are under way; of those that have
  // failed before if `failed`.
  size_t Available(Clock::time_point now, size_t limit, bool failed) const REQUIRES(mutex_);

  // --- What is done: cpuset_updater.cc.

  // Begins to narrow and to update every container whose set has changed.
  void Update() EXCLUDES(mutex_);
  // Begins a pass over those that can be narrowed, unless one is under way.
  void Narrow(const std::vector<Change>& changes) EXCLUDES(mutex_);
  void Narrowed(const std::vector<Change>& changes, const std::set<std::string>& refused)
      EXCLUDES(mutex_);
  void Apply(const Change& change, const std::vector<int>& memory_nodes) EXCLUDES(mutex_);
  void Applied(const Change& change, const Result<Done>& result) EXCLUDES(mutex_);
  // Answers the waiters that may start and, if `planned`, those whose deadline has passed.
  void AnswerWaiters(bool planned) EXCLUDES(mutex_);
  // Why containers have not moved, by id. Containers without a failed or pending update are not in
  // it.
  using Reasons = std::map<std::string, std::string>;
  Reasons WhyNotMoved() const REQUIRES(mutex_);
  // Done, or why the container must not start yet. `listed`: a container that is still not known
  // does not exist.
  Result<Done> MayStart(const std::string& named, bool listed, const Reasons& why) const;
  // Whether containers are being narrowed for too long.
  bool NarrowingHangs(Clock::time_point now) const REQUIRES(mutex_) {
    return narrowing_ && now - *narrowing_ >= options_.narrow_patience;
  }
  // When something is due without a Nudge.
  Clock::time_point NextDue() const REQUIRES(mutex_);

  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  CpusetNarrower& narrower_;
  Conditions& conditions_;
  const Relist relist_;
  const Options options_;

  mutable Mutex mutex_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool has_failed_ GUARDED_BY(mutex_) = false;  // RuntimeFailed since it was listed
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
  std::map<std::string, Applying> applying_ GUARDED_BY(mutex_);    // by container id
  Clock::time_point checked_ GUARDED_BY(mutex_);                   // for changes, last
  bool more_due_ GUARDED_BY(mutex_) = false;                       // beyond `max_at_once`
  std::optional<Clock::time_point> narrowing_ GUARDED_BY(mutex_);  // a pass, since when
  // The last attempt to narrow these has failed; until the runtime has updated them.
  std::set<std::string> not_narrowed_ GUARDED_BY(mutex_);
  // Updated, but not certainly: a call of another client was under way.
  std::set<std::string> disturbed_ GUARDED_BY(mutex_);
  std::map<std::string, Clock::time_point> deferred_ GUARDED_BY(mutex_);  // since when, by id
  Clock::time_point deferred_due_ GUARDED_BY(mutex_) = RecurringTask::kNever;
  std::map<std::string, Failure> failures_ GUARDED_BY(mutex_);  // by container id
  std::map<std::string, Wait> waits_ GUARDED_BY(mutex_);        // by container id

  RecurringTask task_;
};

}  // namespace alignd::reconcile
