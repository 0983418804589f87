#include "reconcile/runtime_lister.h"

#include <memory>
#include <set>
#include <utility>

namespace alignd::reconcile {

RuntimeLister::RuntimeLister(TaskQueue& io, allocation::AllocationManager& allocation,
                             ContainerRegistry& registry, RuntimeClient& runtime,
                             PodReleaser& releaser, Conditions& conditions,
                             std::function<void(Clock::time_point)> listed, Options options)
    : allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      releaser_(releaser),
      conditions_(conditions),
      listed_(std::move(listed)),
      options_(options),
      task_(io, [this] { return Run(); }) {}

void RuntimeLister::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  task_.Stop();
  AnswerWaiters();
}

void RuntimeLister::Relist() {
  {
    const MutexLock lock(mutex_);
    relist_ = true;
  }
  task_.RunSoon();
}

void RuntimeLister::WhenListed(std::function<void(bool)> done) {
  bool waits = false;
  {
    const MutexLock lock(mutex_);
    waits = !recovered_ && !stopping_;
    if (waits) {
      waiters_.push_back(std::move(done));
      relist_ = true;
    }
  }
  if (waits) {
    task_.RunSoon();
  } else {
    done(recovered_);
  }
}

void RuntimeLister::AnswerWaiters() {
  std::vector<std::function<void(bool)>> waiters;
  {
    const MutexLock lock(mutex_);
    waiters.swap(waiters_);
  }
  for (const auto& done : waiters) done(recovered_);
}

RuntimeLister::Clock::time_point RuntimeLister::Run() {
  std::optional<Result<RuntimeListing>> answer;
  {
    const MutexLock lock(mutex_);
    answer.swap(answer_);
  }
  if (answer) {
    under_way_ = false;
    Take(*answer);
    AnswerWaiters();
  }
  if (under_way_) return RecurringTask::kNever;
  {
    const MutexLock lock(mutex_);
    if (!relist_ && Clock::now() < next_) return next_;
    relist_ = false;
  }
  Begin();
  return RecurringTask::kNever;
}

void RuntimeLister::Begin() {
  under_way_ = true;
  began_ = Clock::now();
  registry_.BeginListing();
  conditions_.RuntimeAsked();
  runtime_.List([this](Result<RuntimeListing> listing) {
    {
      const MutexLock lock(mutex_);
      answer_ = std::move(listing);
    }
    task_.RunSoon();
  });
}

void RuntimeLister::Take(const Result<RuntimeListing>& listing) {
  if (!listing.ok()) {
    conditions_.RuntimeFailed(listing.error());
    next_ = Clock::now() + options_.retry;
    return;
  }
  conditions_.RuntimeAnswered();
  const std::set<std::string> known = allocation_.KnownPods();
  const std::set<std::string> gone = registry_.Resync(*listing, known, /*at_start=*/!recovered_);
  for (const std::string& uid : gone) releaser_.Release(uid);
  // When this returns, the releases are done: a caller that waits for the listing never finds an
  // assignment from before the restart.
  if (!gone.empty()) (void)allocation_.KnownPods();
  releaser_.Look();
  recovered_ = true;
  ReportUnmanaged();
  listed_(began_);
  next_ = Clock::now() + options_.period;
}

void RuntimeLister::ReportUnmanaged() {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  std::vector<Subject> unmanaged;
  for (const ContainerRegistry::UnmanagedContainer& container : registry_.UnmanagedContainers()) {
    // A container that is created again finds the assignment of its predecessor.
    if (snapshot->state.cpu.Find(container.key) != nullptr) continue;
    unmanaged.push_back({container.id, container.key, registry_.PodName(container.key.pod_uid)});
  }
  conditions_.FoundUnmanaged(unmanaged);
}

}  // namespace alignd::reconcile
