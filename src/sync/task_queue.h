// One worker thread at a time that runs posted tasks, in order or at a given time.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "sync/mutex.h"

namespace alignd {

// Thread-safe. Tasks see everything that happened before their Post, and all earlier tasks.
class TaskQueue {
 public:
  using Task = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  // For queues that are without work most of the time, and whose tasks can be refused.
  static constexpr Clock::duration kLinger = std::chrono::seconds(5);

  // `name` is what debuggers and `top -H` show of the thread, at most 15 bytes of it.
  // Without `linger`, the thread is started here and ends with Stop: no Post lacks a thread.
  // With it, the first Post starts the thread. It ends when no task has waited for `linger`, due or
  // not, and the next Post starts another one.
  explicit TaskQueue(std::string name, std::optional<Clock::duration> linger = std::nullopt);
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  // Stops. Must not run on this queue's thread.
  ~TaskQueue();

  // Never blocks and never runs `task` itself. False, and the task is dropped, after the queue has
  // stopped, or if it needs a thread and the system has none; a task that runs while the queue
  // drains may still post.
  bool Post(Task task);

  // Runs `task` at `time` or soon after, tasks of the same time in the order of their posting.
  // Otherwise as Post. A task whose time has not come when Stop is called never runs.
  bool PostAt(Clock::time_point time, Task task);

  // Runs the posted tasks, and the tasks that they post in turn, then ends the thread. Returns when
  // the thread has ended; any number of calls, from any thread but this queue's.
  void Stop();

  // How many tasks wait that may run now; those with a time are among them once it has come and
  // the thread has looked.
  size_t size() const;

  // Whether there is a thread now.
  bool has_thread() const;

  // Whether the caller is a task of this queue.
  bool OnThisThread() const;

  // Ends the program if the caller is not a task of this queue. In every build: if two threads used
  // the data of one thread, a CPU could be assigned twice, which is worse than a crash.
  void AssertOnThisThread() const;

 private:
  // Whether a task may be added. Starts the thread if there is none.
  bool CanTake() REQUIRES(mutex_);
  // Throws std::system_error if the system has no thread.
  void StartThread() REQUIRES(mutex_);
  void Run();
  // Waits for the next task; empty if the thread is to end.
  Task Next() EXCLUDES(mutex_);
  // Waits until there may be more to do. False: nothing came for `linger_`.
  bool AwaitMore() REQUIRES(mutex_);

  const std::string name_;
  const std::optional<Clock::duration> linger_;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  // While there are any tasks, there is a thread.
  std::multimap<Clock::time_point, Task> timed_ GUARDED_BY(mutex_);
  bool has_thread_ GUARDED_BY(mutex_) = false;
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;
  std::thread thread_ GUARDED_BY(mutex_);  // the last one that was started

  Mutex join_mutex_;  // one Stop at a time; never locked by the worker
};

}  // namespace alignd
