// Keeps what runs and what was granted the same: asks the runtime what exists, releases what is
// gone, and moves the containers of the shared pool whenever its CPU set changes.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "cri/container_registry.h"
#include "cri/runtime_client.h"
#include "sync/mutex.h"

namespace alignd::cri {

// Thread-safe. One thread of its own; only that thread waits for the runtime.
class Reconciler {
 public:
  struct Options {
    std::chrono::milliseconds period{10'000};          // between listings
    std::chrono::milliseconds retry{1'000};            // after a listing or an update that failed
    std::chrono::milliseconds stopped_grace{10'000};   // a stopped pod keeps its grant this long
    std::chrono::milliseconds start_patience{10'000};  // a start waits this long for others to move
  };

  // All references outlive this object.
  Reconciler(const admission::Node& node, allocation::AllocationManager& allocation,
             ContainerRegistry& registry, RuntimeClient& runtime, Options options);
  ~Reconciler();

  // Lists the runtime once, on the caller's thread, then starts the own thread. A runtime that is
  // not there is listed as soon as it is.
  void Start();

  // Stops the thread, ending the runtime's calls; waiting callers get kUnavailable. From here on
  // the other methods may still be called.
  void Stop();

  // Something changed: look whether containers must move.
  void Nudge();

  // The runtime may have done something that we did not see: list it at once.
  void Relist();

  // Whether the runtime has been listed since the start, so that stale grants are gone.
  bool recovered() const { return recovered_; }

  // Answers once it is safe to start the container: it has been told the CPU set that it has now,
  // and nobody else was last told a CPU that is exclusively its. At once if that is so already,
  // else after the pass that makes it so, on any thread. A container that we do not know is looked
  // for in the runtime first. Errors: kUnavailable after `start_patience`, naming the containers
  // that could not be moved.
  void BeforeStart(const std::string& container_id, std::function<void(Result<Done>)> done);

  // Releases pods all of whose sandboxes have stopped, without waiting for their grace. Answers
  // whether there were any.
  void ReleaseStopped(std::function<void(bool)> done);

 private:
  struct Waiter {
    std::string container_id;
    std::function<void(Result<Done>)> done;
    std::chrono::steady_clock::time_point deadline;
    bool listed = false;  // the runtime, since it waits
  };

  void Run();
  // Sets when the next listing is due. False if the runtime could not be listed.
  bool ListAndRelease();
  // Answers those who may start or have waited for too long. Whether some still wait.
  bool AnswerWaiters(std::vector<Waiter> waiters, bool listed);
  // Tells every container whose set changed. False if one could not be told.
  bool MoveContainers();
  bool Tell(const std::vector<admission::CpuSetChange>& changes);
  // Why the container must not start yet, or Done. `listed`: one that we do not know is not there.
  Result<Done> MayStart(const std::string& container_id, bool listed) const;

  const admission::Node& node_;
  allocation::AllocationManager& allocation_;
  ContainerRegistry& registry_;
  RuntimeClient& runtime_;
  const Options options_;

  std::atomic<bool> recovered_ = false;

  Mutex mutex_;
  CondVar wake_;
  bool nudged_ GUARDED_BY(mutex_) = false;
  bool relist_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  std::vector<Waiter> waiters_ GUARDED_BY(mutex_);

  std::chrono::steady_clock::time_point next_listing_;  // the own thread's, once that runs
  std::thread thread_;
};

}  // namespace alignd::cri
