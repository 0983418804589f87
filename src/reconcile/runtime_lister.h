// Lists the runtime's sandboxes and containers periodically, and has the assignments of removed
// pods released.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "allocation/allocation_manager.h"
#include "reconcile/conditions.h"
#include "reconcile/container_adopter.h"
#include "reconcile/container_registry.h"
#include "reconcile/pod_releaser.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace alignd::reconcile {

// The policies that the pods ask for, by UID. Of several sandboxes of a pod, the newest one counts
// that is ready; if none is, the newest one.
std::map<std::string, PodPolicies> PoliciesIn(const RuntimeListing& listing);

// Thread-safe. Its work runs on a task queue, which may block: it waits for decisions. It does not
// wait for the runtime.
class RuntimeLister {
 public:
  using Clock = std::chrono::steady_clock;
  // Whether the caller that waits has gone; null: it does not go.
  using Cancelled = std::shared_ptr<const std::atomic<bool>>;

  struct Options {
    std::chrono::milliseconds period{10'000};  // between listings
    std::chrono::milliseconds retry{1'000};    // after a listing that failed
    // From the end of a listing that was requested until another one that is requested begins: a
    // flood of requests, such as updates of unknown containers, does not list without end. One
    // listing answers all callers that wait for it.
    std::chrono::milliseconds pause{500};
    // Adopts containers with the first listing; null: none is adopted.
    ContainerAdopter* adopter = nullptr;
    // Gets the resources of adopted devices; on the queue. May be null.
    std::function<void(const std::set<std::string>&)> adopted{};
  };

  // `listed` is called after every listing, on the queue, with the time at which the listing began;
  // `failed` after every listing that failed. All references outlive this object.
  RuntimeLister(TaskQueue& io, allocation::AllocationManager& allocation,
                ContainerRegistry& registry, RuntimeClient& runtime, PodReleaser& releaser,
                Conditions& conditions, std::function<void(Clock::time_point)> listed,
                std::function<void()> failed, Options options);
  RuntimeLister(const RuntimeLister&) = delete;
  RuntimeLister& operator=(const RuntimeLister&) = delete;
  ~RuntimeLister() { Stop(); }

  // Lists the runtime at once, or as soon as it is available.
  void Start() { task_.RunSoon(); }
  // Call after RuntimeClient::Stop, so that no listing is under way.
  void Stop() EXCLUDES(mutex_);

  // Lists the runtime, at once or after Options::pause: it may have changed something that did not
  // pass through alignd.
  void Relist() EXCLUDES(mutex_);

  // Answers whether the runtime has been listed since the start, so that outdated assignments are
  // released. If it has, the answer comes at once. If not, the answer comes at the end of the
  // listing that is under way, or of one that begins now. A runtime that is not available ends the
  // wait; one that hangs extends it up to the timeout of our own calls. On any thread.
  // For a caller that has gone, `done` may be dropped without an answer: while a runtime hangs,
  // callers that come and go again leave little.
  void WhenListed(std::function<void(bool recovered)> done, Cancelled cancelled = nullptr)
      EXCLUDES(mutex_);

  // Whether the runtime has been listed since the start. Thread-safe; does not list it.
  bool recovered() const { return recovered_; }

  // As Relist, and answers whether a listing that began after this call has succeeded.
  // The answer comes at the end of that listing, or at `until`. On any thread. `cancelled` as for
  // WhenListed.
  void WhenListedAnew(Clock::time_point until, std::function<void(bool listed)> done,
                      Cancelled cancelled = nullptr) EXCLUDES(mutex_);

 private:
  struct Waiter {
    std::function<void(bool)> done;
    std::optional<Clock::time_point> since;  // waits for a listing that begins from then on
    Clock::time_point until = Clock::time_point::max();
    Cancelled cancelled{};
  };

  // Adds the waiter and answers true, unless alignd is stopping, or the waiter's listing has ended.
  // Drops those whose callers have gone, whenever the waiters have doubled.
  bool AddWaiter(Waiter waiter) EXCLUDES(mutex_);

  // Answers when the next listing is due.
  Clock::time_point Run() EXCLUDES(mutex_);
  void Begin() EXCLUDES(mutex_);
  // Whether containers are being adopted from the listing: Take follows then.
  bool BeginAdoption(const Result<RuntimeListing>& listing) EXCLUDES(mutex_);
  // The listing whose containers have been adopted; the error of that; nullopt: none yet.
  std::optional<Result<RuntimeListing>> FinishAdoption() EXCLUDES(mutex_);
  void Take(const Result<RuntimeListing>& listing);
  // Those of the listing that has just ended; `listed`: with success.
  void AnswerWaiters(bool listed) EXCLUDES(mutex_);
  // Those whose time is over.
  void AnswerLate() EXCLUDES(mutex_);
  Clock::time_point NextLate() const REQUIRES(mutex_);
  // Reports the containers that were created directly at the runtime.
  void ReportUnmanaged();

  allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  PodReleaser& releaser_;
  Conditions& conditions_;
  const std::function<void(Clock::time_point)> listed_;
  const std::function<void()> failed_;
  const Options options_;

  std::atomic<bool> recovered_ = false;

  Mutex mutex_;
  bool relist_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::optional<Result<RuntimeListing>> answer_ GUARDED_BY(mutex_);  // of the runtime
  bool adoption_ready_ GUARDED_BY(mutex_) = false;                   // for FinishAdoption
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);                   // for a listing's end
  size_t drop_at_ GUARDED_BY(mutex_) = 0;                            // so many waiters

  // Used by the task only.
  bool under_way_ = false;                  // a listing
  bool is_silent_ = false;                  // and that it takes long is reported
  std::optional<RuntimeListing> adopting_;  // from this listing; it is under way meanwhile
  bool has_refused_ = false;                // the adopter, with this listing
  Clock::time_point began_;
  Clock::time_point next_ = Clock::time_point::min();
  bool is_requested_ = false;  // the listing that is under way
  Clock::time_point next_requested_ = Clock::time_point::min();
  RecurringTask task_;
};

}  // namespace alignd::reconcile
