#include "sync/task_queue.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>
#include <utility>

namespace alignd {
namespace {

constexpr size_t kMaxThreadName = 15;  // pthread_setname_np refuses a longer one

// Whose task this thread runs. The id of a thread would not do: it is given to later threads again.
thread_local const TaskQueue* running = nullptr;

}  // namespace

TaskQueue::TaskQueue(std::string name, std::optional<Clock::duration> linger)
    : name_(std::move(name)), linger_(linger) {
  if (linger_) return;
  const MutexLock lock(mutex_);
  StartThread();
}

TaskQueue::~TaskQueue() { Stop(); }

bool TaskQueue::Post(Task task) {
  const MutexLock lock(mutex_);
  if (!CanTake()) return false;
  tasks_.push_back(std::move(task));
  wake_.NotifyOne();
  return true;
}

bool TaskQueue::PostAt(Clock::time_point time, Task task) {
  const MutexLock lock(mutex_);
  if (!CanTake()) return false;
  timed_.emplace(time, std::move(task));
  wake_.NotifyOne();
  return true;
}

bool TaskQueue::CanTake() {
  if (ended_) return false;
  if (has_thread_) return true;
  try {
    StartThread();
  } catch (const std::system_error&) {
    return false;
  }
  return true;
}

void TaskQueue::StartThread() {
  // The new thread joins the one before it, so that Post need not. Shared: if no thread can be
  // started, it is still needed.
  const auto before = std::make_shared<std::thread>(std::move(thread_));
  try {
    thread_ = std::thread([this, before] {
      if (before->joinable()) before->join();
      Run();
    });
  } catch (const std::system_error&) {
    thread_ = std::move(*before);
    throw;
  }
  has_thread_ = true;
}

void TaskQueue::Stop() {
  const MutexLock one_at_a_time(join_mutex_);
  std::thread last;
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    if (!has_thread_) ended_ = true;
    last = std::move(thread_);
    wake_.NotifyOne();
  }
  if (last.joinable()) last.join();
}

size_t TaskQueue::size() const {
  const MutexLock lock(mutex_);
  return tasks_.size();
}

bool TaskQueue::has_thread() const {
  const MutexLock lock(mutex_);
  return has_thread_;
}

bool TaskQueue::OnThisThread() const { return running == this; }

void TaskQueue::AssertOnThisThread() const {
  if (OnThisThread()) return;
  std::fprintf(stderr, "alignd: not on the thread of task queue %s\n", name_.c_str());
  std::abort();
}

void TaskQueue::Run() {
  // A missing name is only a nuisance in a debugger.
  (void)pthread_setname_np(pthread_self(), name_.substr(0, kMaxThreadName).c_str());
  running = this;
  while (Task task = Next()) task();
}

TaskQueue::Task TaskQueue::Next() {
  std::multimap<Clock::time_point, Task>
      dropped;  // destroyed after the lock is released: a task's destructor may post
  const MutexLock lock(mutex_);
  while (true) {
    while (!timed_.empty() && timed_.begin()->first <= Clock::now()) {
      tasks_.push_back(std::move(timed_.begin()->second));
      timed_.erase(timed_.begin());
    }
    if (!tasks_.empty()) {
      Task task = std::move(tasks_.front());
      tasks_.pop_front();
      return task;
    }
    if (stopping_) {
      ended_ = true;
      dropped.swap(timed_);
    }
    if (stopping_ || !AwaitMore()) {
      has_thread_ = false;
      return {};
    }
  }
}

bool TaskQueue::AwaitMore() {
  if (!timed_.empty()) {
    wake_.WaitUntil(mutex_, timed_.begin()->first);
    return true;
  }
  if (!linger_) {
    wake_.Wait(mutex_);
    return true;
  }
  const Clock::time_point until = Clock::now() + *linger_;
  while (tasks_.empty() && timed_.empty() && !stopping_) {
    if (!wake_.WaitUntil(mutex_, until)) break;
  }
  return !tasks_.empty() || !timed_.empty() || stopping_;
}

}  // namespace alignd
