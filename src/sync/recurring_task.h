// A function that a task queue runs again and again: on request, and at the times that it asks for.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

#include "sync/task_queue.h"

namespace alignd {

// Replaces a thread with a loop. Thread-safe.
class RecurringTask {
 public:
  using Clock = TaskQueue::Clock;
  static constexpr Clock::time_point kNever = Clock::time_point::max();
  // Answers when it is to run next although nothing requests it.
  using Run = std::function<Clock::time_point()>;

  // `queue` outlives this object. The first run follows the first request.
  RecurringTask(TaskQueue& queue, Run run);
  RecurringTask(const RecurringTask&) = delete;
  RecurringTask& operator=(const RecurringTask&) = delete;
  ~RecurringTask();

  // Requests a run that begins after this call. Several requests may share one run.
  void RunSoon();

  // No run is under way when it returns, and none begins. Tasks that are still in the queue do
  // nothing then. Not in the function itself.
  void Stop();

 private:
  class State;

  const std::shared_ptr<State> state_;  // shared with the tasks in the queue
};

}  // namespace alignd
