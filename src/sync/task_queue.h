// One worker thread that runs posted tasks, in order or at a given time.
#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "sync/mutex.h"

namespace alignd {

// Thread-safe. Tasks see everything that happened before their Post, and all earlier tasks.
class TaskQueue {
 public:
  using Task = std::function<void()>;
  using Clock = std::chrono::steady_clock;

  // Starts the thread. `name` is what debuggers and `top -H` show, at most 15 bytes of it.
  explicit TaskQueue(std::string name);
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;
  // Stops. Must not run on this queue's thread.
  ~TaskQueue();

  // Never blocks and never runs `task` itself. False, and the task is dropped, after the queue has
  // stopped; a task that runs while the queue drains may still post.
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

  // Whether the caller is a task of this queue.
  bool OnThisThread() const;

  // Ends the program if the caller is not a task of this queue. In every build: if two threads used
  // the data of one thread, a CPU could be assigned twice, which is worse than a crash.
  void AssertOnThisThread() const;

 private:
  void Run();
  // Waits for the next task; empty once the queue has drained.
  Task Next() EXCLUDES(mutex_);

  const std::string name_;

  mutable Mutex mutex_;
  CondVar wake_;
  std::deque<Task> tasks_ GUARDED_BY(mutex_);
  std::multimap<Clock::time_point, Task> timed_ GUARDED_BY(mutex_);
  bool stopping_ GUARDED_BY(mutex_) = false;
  bool ended_ GUARDED_BY(mutex_) = false;

  Mutex join_mutex_;  // one Stop at a time; never locked by the worker
  std::thread thread_ GUARDED_BY(join_mutex_);
  std::thread::id thread_id_;  // constant after construction
};

}  // namespace alignd
