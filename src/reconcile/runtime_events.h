// Follows the runtime's stream of container events, so that containers that are created at the
// runtime's own socket are found at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <set>
#include <string>

#include "reconcile/container_registry.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace grpc {
class Status;
}  // namespace grpc

namespace alignd::service {
class Client;
}  // namespace alignd::service

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue and never waits. The stream is read on the thread
// `calls`. Where the runtime serves no events (containerd before 1.7), and while the stream is
// down, the period of RuntimeLister remains. containerd 1.7 gives each event to one reader only:
// alignd reads none while a client of alignd does.
class RuntimeEvents {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // A container that an event names gets this long to become known: alignd learns of its own
    // containers from the runtime's answer, which may come after the event.
    std::chrono::milliseconds settle{200};
    std::chrono::milliseconds pause{500};  // at least, between two listings because of events
    // After the stream has ended. Doubled, up to `last_retry`, each time that the stream has lasted
    // for less than that.
    std::chrono::milliseconds retry{1'000};
    std::chrono::milliseconds last_retry{60'000};
  };

  // `relist` requests a listing of the runtime. All references outlive this object.
  RuntimeEvents(TaskQueue& background, std::shared_ptr<service::Client> client,
                const ContainerRegistry& registry, std::function<void()> relist, Options options);
  RuntimeEvents(const RuntimeEvents&) = delete;
  RuntimeEvents& operator=(const RuntimeEvents&) = delete;
  ~RuntimeEvents() { Stop(); }

  void Start() { task_.RunSoon(); }
  // When it returns, no stream is open and none is opened. Not on the thread `calls`.
  void Stop() EXCLUDES(mutex_);

  // Around each client's call that reads the runtime's stream of events.
  void ClientReads() EXCLUDES(mutex_);
  void ClientHasLeft() EXCLUDES(mutex_);

  // The connection to the runtime has ended, or the runtime has not answered. A runtime that serves
  // no events is only asked again after that: it may have been replaced. Others are asked again
  // soon.
  void RuntimeLost() EXCLUDES(mutex_);

 private:
  class Stream;

  Clock::time_point Run() EXCLUDES(mutex_);
  void Open() EXCLUDES(mutex_);
  // On the thread `calls`. An empty id: the event could not be read.
  void OnEvent(const std::string& id) EXCLUDES(mutex_);
  void OnEnd(const grpc::Status& status) EXCLUDES(mutex_);
  // Opens the next stream after the pause, unless that is to wait for something else.
  void OpenLater() REQUIRES(mutex_);
  // Whether something may run that a listing would find.
  bool HasUnknown() EXCLUDES(mutex_);

  const std::shared_ptr<service::Client> client_;
  const ContainerRegistry& registry_;
  const std::function<void()> relist_;
  const Options options_;

  Mutex mutex_;
  CondVar ended_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool unserved_ GUARDED_BY(mutex_) = false;            // by the runtime
  bool lost_ GUARDED_BY(mutex_) = false;                // the runtime, since the stream was opened
  size_t clients_ GUARDED_BY(mutex_) = 0;               // that read events
  std::shared_ptr<Stream> stream_ GUARDED_BY(mutex_);   // null: none is open
  Clock::time_point opened_ GUARDED_BY(mutex_);         // the stream
  std::chrono::milliseconds pause_ GUARDED_BY(mutex_);  // before the next stream
  // kNever: while a stream is open, and while something else is to happen first.
  Clock::time_point open_at_ GUARDED_BY(mutex_) = Clock::time_point::min();
  std::set<std::string> changed_ GUARDED_BY(mutex_);  // ids of events that were not looked at
  bool overflow_ GUARDED_BY(mutex_) = false;          // more than fit there, or unreadable ones
  Clock::time_point due_ GUARDED_BY(mutex_) = RecurringTask::kNever;  // of the look at them
  Clock::time_point not_before_ GUARDED_BY(mutex_) = Clock::time_point::min();  // of that look
  bool said_unserved_ GUARDED_BY(mutex_) = false;
  bool said_left_ GUARDED_BY(mutex_) = false;

  RecurringTask task_;
};

}  // namespace alignd::reconcile
