// Follows the runtime's stream of container events, so that containers that are created at the
// runtime's own socket are found at once.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "reconcile/container_registry.h"
#include "sync/mutex.h"
#include "sync/recurring_task.h"
#include "sync/task_queue.h"

namespace grpc {
class Channel;
class Status;
}  // namespace grpc

namespace alignd::reconcile {

// Thread-safe. Its work runs on a task queue and never waits. The stream is read on gRPC's threads.
// Where the runtime serves no events (containerd before 1.7), and while the stream is down, the
// period of RuntimeLister remains. containerd 1.7 gives each event to one reader only: as soon as a
// client of alignd reads events, alignd stops reading them.
class RuntimeEvents {
 public:
  using Clock = std::chrono::steady_clock;

  struct Options {
    // A container of which an event tells gets this long to become known: alignd learns of its own
    // containers from the runtime's answer, which may come after the event.
    std::chrono::milliseconds settle{200};
    std::chrono::milliseconds pause{500};    // at least, between two listings because of events
    std::chrono::milliseconds retry{1'000};  // after the stream has ended
    std::chrono::milliseconds retry_if_unserved{60'000};  // the runtime may be upgraded
  };

  // `relist` requests a listing of the runtime. All references outlive this object.
  RuntimeEvents(TaskQueue& background, std::shared_ptr<grpc::Channel> channel,
                const ContainerRegistry& registry, std::function<void()> relist, Options options);
  RuntimeEvents(const RuntimeEvents&) = delete;
  RuntimeEvents& operator=(const RuntimeEvents&) = delete;
  ~RuntimeEvents() { Stop(); }

  void Start() { task_.RunSoon(); }
  // When it returns, no stream is open and none is opened. Not on gRPC's threads.
  void Stop() EXCLUDES(mutex_);

  // Call when a client opens the runtime's stream of events.
  void LeaveToClient() EXCLUDES(mutex_);

 private:
  class Stream;

  Clock::time_point Run() EXCLUDES(mutex_);
  void Open() EXCLUDES(mutex_);
  // On gRPC's threads. An empty id: the event could not be read.
  void OnEvent(const std::string& id) EXCLUDES(mutex_);
  void OnEnd(const grpc::Status& status) EXCLUDES(mutex_);
  // Whether something may run that a listing would find.
  bool HasUnknown() EXCLUDES(mutex_);

  const std::shared_ptr<grpc::Channel> channel_;
  const ContainerRegistry& registry_;
  const std::function<void()> relist_;
  const Options options_;

  Mutex mutex_;
  CondVar ended_;
  bool stopped_ GUARDED_BY(mutex_) = false;            // or left to a client
  std::shared_ptr<Stream> stream_ GUARDED_BY(mutex_);  // null: none is open
  std::optional<Clock::time_point> open_at_ GUARDED_BY(mutex_) = Clock::time_point::min();
  std::set<std::string> changed_ GUARDED_BY(mutex_);  // ids of events that were not looked at
  bool overflow_ GUARDED_BY(mutex_) = false;          // more than fit there, or unreadable ones
  Clock::time_point due_ GUARDED_BY(mutex_) = RecurringTask::kNever;  // of the look at them
  Clock::time_point not_before_ GUARDED_BY(mutex_) = Clock::time_point::min();  // of that look
  bool said_unserved_ GUARDED_BY(mutex_) = false;

  RecurringTask task_;
};

}  // namespace alignd::reconcile
