// Asks the runtime what exists, again and again, and has released what pods held that are gone.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "allocation/allocation_manager.h"
#include "reconcile/conditions.h"
#include "reconcile/container_registry.h"
#include "reconcile/pod_releaser.h"
#include "reconcile/runtime_client.h"
#include "sync/mutex.h"

namespace alignd::reconcile {

// Thread-safe. One thread of its own, which waits for the runtime.
class RuntimeLister {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    std::chrono::milliseconds period{10'000};  // between listings
    std::chrono::milliseconds retry{1'000};    // after a listing that failed
  };

  // `listed` is called after every listing, on the lister's thread, with the time at which it
  // began. All references outlive this object.
  RuntimeLister(allocation::AllocationManager& allocation, ContainerRegistry& registry,
                RuntimeClient& runtime, PodReleaser& releaser, Conditions& conditions,
                std::function<void(Clock::time_point)> listed, Options options);
  RuntimeLister(const RuntimeLister&) = delete;
  RuntimeLister& operator=(const RuntimeLister&) = delete;
  ~RuntimeLister();

  // Starts the own thread, which lists the runtime at once, or as soon as it is there.
  void Start();
  // The runtime client has been stopped: a listing under way ends.
  void Stop();

  // The runtime may have done something that we did not see: list it at once.
  void Relist();

  // Whether the runtime has been listed since the start, so that stale assignments are gone.
  bool recovered() const { return recovered_; }

  // Answers with `recovered`: at once if it is so, else when the listing that is under way, or one
  // that is made now, has come to its end. A runtime that is not there is no reason to wait, one
  // that hangs is for as long as our own calls of it may take. On any thread.
  void WhenListed(std::function<void(bool recovered)> done);

 private:
  void Run();
  void AnswerWaiters();
  // Answers when the next listing is due.
  Clock::time_point List();
  // Applies of containers that were made at the runtime itself.
  void NoteUnmanaged();

  allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  PodReleaser& releaser_;
  Conditions& conditions_;
  const std::function<void(Clock::time_point)> listed_;
  const Options options_;

  std::atomic<bool> recovered_ = false;

  Mutex mutex_;
  CondVar wake_;
  bool relist_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<std::function<void(bool)>> waiters_ GUARDED_BY(mutex_);  // for a listing's end

  // The own thread's.
  Clock::time_point next_ = Clock::time_point::min();
  std::thread thread_;
};

}  // namespace alignd::reconcile
