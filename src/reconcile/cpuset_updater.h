// Applies containers the CPUs that they are to run on, and says when a container may start.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Thread-safe. One thread of its own, which never waits for the runtime: each container is told by
// a call of its own, so that one that hangs holds up only those who need the CPUs it is on.
class CpusetUpdater {
 public:
  struct Options {
    std::chrono::milliseconds start_patience{10'000};  // a start waits this long for others to move
    std::chrono::milliseconds first_retry{1'000};      // after an update that failed; then doubled
    std::chrono::milliseconds last_retry{30'000};      // up to this
    // So many are told at once, lest the runtime have hundreds of updates to do before it creates
    // the container that they make room for; not counting those that it takes longer to answer.
    size_t most_at_once = 16;
    std::chrono::milliseconds slow{100};
  };

  using Clock = std::chrono::steady_clock;
  // Has the runtime listed soon; Listed follows.
  using Relist = std::function<void()>;

  // All references outlive this object.
  CpusetUpdater(const admission::Node& node, allocation::AllocationManager& allocation,
                ContainerRegistry& registry, RuntimeClient& runtime, Conditions& conditions,
                Relist relist, Options options);
  CpusetUpdater(const CpusetUpdater&) = delete;
  CpusetUpdater& operator=(const CpusetUpdater&) = delete;
  ~CpusetUpdater();

  void Start();
  // Waiting callers get kUnavailable. The runtime client has been stopped: calls under way end.
  void Stop();

  // Something changed: look whether containers must move.
  void Nudge();

  // The registry knows what the runtime had at `began`.
  void Listed(Clock::time_point began);

  // Answers once it is safe to start the container: it has been told the CPU set that it has now,
  // and nobody else is on a CPU that is exclusively its. At once if that is so already, else once
  // it is, on any thread. A container that we do not know is looked for in the runtime first.
  // `named`: its id, or the beginning of it; what that means is looked up anew each time.
  // Errors: kUnavailable after `start_patience`, naming the containers that could not be moved, and
  // why.
  void BeforeStart(const std::string& named, std::function<void(Result<Done>)> done);

 private:
  struct Waiter {
    std::string named;
    std::function<void(Result<Done>)> done;
    Clock::time_point since;
    Clock::time_point deadline;
    bool listed = false;  // the runtime, since it waits
    bool fresh = true;    // has not been looked at: what is in its way is told without delay
  };
  struct Failure {
    int times = 0;
    std::string error;  // the last one
    Clock::time_point retry;
  };

  void Run();
  // Begins to tell every container whose set changed.
  void Move();
  // Those that may be told now: not the ones that are being told, that have failed a moment ago, or
  // that would come onto CPUs before others have left them; and not too many.
  std::vector<admission::CpuSetChange> DueChanges(const admission::NodeState& state,
                                                  bool& asked_for);
  std::set<std::string> TooEarly(const admission::NodeState& state,
                                 const std::vector<admission::CpuSetChange>& changes) const;
  // `before`: the CPUs that it may be on as yet; empty: any.
  void Apply(const admission::CpuSetChange& change, const std::vector<int>& memory_nodes,
             const CpuSet& before);
  void Applied(const admission::CpuSetChange& change, const Result<Done>& result);
  // Answers those who may start or have waited for too long.
  void AnswerWaiters();
  // Why containers have not moved, by id; those that nobody has tried to move are not in it.
  using Reasons = std::map<std::string, std::string>;
  Reasons WhyNotMoved() const REQUIRES(mutex_);
  // Why the container must not start yet, or Done. `listed`: one that we do not know is not there.
  Result<Done> MayStart(const std::string& named, bool listed, const Reasons& why) const;
  // How many may be told besides those that are.
  size_t Room(Clock::time_point now) const REQUIRES(mutex_);
  // When something is due although nobody nudges.
  Clock::time_point NextDue() const REQUIRES(mutex_);

  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  Conditions& conditions_;
  const Relist relist_;
  const Options options_;

  mutable Mutex mutex_;
  CondVar wake_;
  bool nudged_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);
  std::map<std::string, Clock::time_point> applying_ GUARDED_BY(mutex_);  // since when, by id
  Clock::time_point looked_ GUARDED_BY(mutex_);                           // for changes, last
  bool more_due_ GUARDED_BY(mutex_) = false;                              // once there is room
  std::map<std::string, Failure> failures_ GUARDED_BY(mutex_);            // by container id

  std::thread thread_;
};

}  // namespace alignd::reconcile
