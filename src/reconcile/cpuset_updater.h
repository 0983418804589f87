// Applies CPU sets to running containers, and decides when a container may start.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue and never waits for the runtime: each container is
// updated by a call of its own. A call that hangs delays only the containers that need those CPUs.
class CpusetUpdater {
 public:
  struct Options {
    std::chrono::milliseconds start_patience{10'000};  // longest wait of a start
    std::chrono::milliseconds first_retry{1'000};      // after a failed update; then doubled
    std::chrono::milliseconds last_retry{30'000};      // up to this
    // This many updates are under way at once. With hundreds, the runtime would serve them all
    // before the container for which they free CPUs. Updates that take longer than `slow` do not
    // count.
    size_t max_at_once = 16;
    std::chrono::milliseconds slow{100};
  };

  using Clock = std::chrono::steady_clock;
  // Requests a listing of the runtime; Listed follows.
  using Relist = std::function<void()>;

  // All references outlive this object.
  CpusetUpdater(TaskQueue& background, const admission::Node& node,
                allocation::AllocationManager& allocation, ContainerRegistry& registry,
                RuntimeClient& runtime, Conditions& conditions, Relist relist, Options options);
  CpusetUpdater(const CpusetUpdater&) = delete;
  CpusetUpdater& operator=(const CpusetUpdater&) = delete;
  ~CpusetUpdater() { Stop(); }

  void Start() { task_.RunSoon(); }
  // Waiting callers get kUnavailable. Call after RuntimeClient::Stop, so that no update is under
  // way.
  void Stop() EXCLUDES(mutex_);

  // Call after a change that may need new CPU sets.
  void Nudge() { task_.RunSoon(); }

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
  struct Failure {
    int times = 0;
    std::string error;  // the last one
    Clock::time_point retry;
  };

  Clock::time_point Run() EXCLUDES(mutex_);
  // Begins to update every container whose set has changed.
  void Update();
  // The updates that may begin now. Not among them: containers that are being updated, that failed
  // recently, or whose new CPUs another container has yet to leave; nor more than `max_at_once`.
  std::vector<admission::CpuSetChange> DueChanges(const admission::NodeState& state,
                                                  bool& asked_for) EXCLUDES(mutex_);
  std::set<std::string> TooEarly(const admission::NodeState& state,
                                 const std::vector<admission::CpuSetChange>& changes) const;
  // `before`: the CPUs that the container may be on now; empty: any.
  void Apply(const admission::CpuSetChange& change, const std::vector<int>& memory_nodes,
             const CpuSet& before) EXCLUDES(mutex_);
  void Applied(const admission::CpuSetChange& change, const Result<Done>& result) EXCLUDES(mutex_);
  // Answers the waiters that may start or whose deadline has passed.
  void AnswerWaiters() EXCLUDES(mutex_);
  // Why containers have not moved, by id. Containers without a failed or pending update are not in
  // it.
  using Reasons = std::map<std::string, std::string>;
  Reasons WhyNotMoved() const REQUIRES(mutex_);
  // Done, or why the container must not start yet. `listed`: a container that is still not known
  // does not exist.
  Result<Done> MayStart(const std::string& named, bool listed, const Reasons& why) const;
  // How many more updates may begin.
  size_t Available(Clock::time_point now) const REQUIRES(mutex_);
  // When something is due without a Nudge.
  Clock::time_point NextDue() const REQUIRES(mutex_);

  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  Conditions& conditions_;
  const Relist relist_;
  const Options options_;

  mutable Mutex mutex_;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
  std::map<std::string, Clock::time_point> applying_ GUARDED_BY(mutex_);  // since when, by id
  Clock::time_point checked_ GUARDED_BY(mutex_);                          // for changes, last
  bool more_due_ GUARDED_BY(mutex_) = false;                              // beyond `max_at_once`
  std::map<std::string, Failure> failures_ GUARDED_BY(mutex_);            // by container id

  RecurringTask task_;
};

}  // namespace alignd::reconcile
