#include "reconcile/runtime_lister.h"

#include <memory>
#include <utility>
#include <vector>

namespace alignd::reconcile {

RuntimeLister::RuntimeLister(allocation::AllocationManager& allocation, ContainerRegistry& registry,
                             RuntimeClient& runtime, PodReleaser& releaser, Conditions& conditions,
                             std::function<void(Clock::time_point)> listed, Options options)
    : allocation_(allocation),
      registry_(registry),
      runtime_(runtime),
      releaser_(releaser),
      conditions_(conditions),
      listed_(std::move(listed)),
      options_(options) {}

RuntimeLister::~RuntimeLister() { Stop(); }

void RuntimeLister::Start() {
  thread_ = std::thread([this] { Run(); });
}

void RuntimeLister::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
  }
  wake_.NotifyAll();
  if (thread_.joinable()) thread_.join();
  AnswerWaiters();
}

void RuntimeLister::Relist() {
  {
    const MutexLock lock(mutex_);
    relist_ = true;
  }
  wake_.NotifyAll();
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
    wake_.NotifyAll();
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

void RuntimeLister::Run() {
  for (;;) {
    {
      const MutexLock lock(mutex_);
      while (!stopping_ && !relist_ && Clock::now() < next_) wake_.WaitUntil(mutex_, next_);
      if (stopping_) return;
      relist_ = false;
    }
    next_ = List();
    AnswerWaiters();
  }
}

RuntimeLister::Clock::time_point RuntimeLister::List() {
  const Clock::time_point began = Clock::now();
  registry_.BeginListing();
  conditions_.RuntimeAsked();
  const Result<RuntimeListing> listing = runtime_.List();
  if (!listing.ok()) {
    conditions_.RuntimeFailed(listing.error());
    return Clock::now() + options_.retry;
  }
  conditions_.RuntimeAnswered();
  const std::set<std::string> known = allocation_.KnownPods();
  const std::set<std::string> gone = registry_.Resync(*listing, known, /*at_start=*/!recovered_);
  for (const std::string& uid : gone) releaser_.Release(uid);
  // They have given everything back once this answers: nobody who waited for the listing finds the
  // grant of a former life.
  if (!gone.empty()) (void)allocation_.KnownPods();
  releaser_.Look();
  recovered_ = true;
  NoteUnmanaged();
  listed_(began);
  return Clock::now() + options_.period;
}

void RuntimeLister::NoteUnmanaged() {
  const std::shared_ptr<const allocation::Snapshot> snapshot = allocation_.snapshot();
  std::vector<Subject> unmanaged;
  for (const ContainerRegistry::UnmanagedContainer& stranger : registry_.UnmanagedContainers()) {
    // One that is made anew finds what its predecessor held.
    if (snapshot->state.cpu.Find(stranger.key) != nullptr) continue;
    unmanaged.push_back({stranger.id, stranger.key, registry_.PodName(stranger.key.pod_uid)});
  }
  conditions_.FoundUnmanaged(unmanaged);
}

}  // namespace alignd::reconcile
