#include "sync/task_queue.h"

#include <pthread.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

namespace alignd {
namespace {

constexpr size_t kMaxThreadName = 15;  // pthread_setname_np refuses a longer one

}  // namespace

TaskQueue::TaskQueue(std::string name) : name_(std::move(name)) {
  // No other thread uses the object yet, but the static analysis needs the lock.
  const MutexLock lock(join_mutex_);
  thread_ = std::thread([this] { Run(); });
  thread_id_ = thread_.get_id();
}

TaskQueue::~TaskQueue() { Stop(); }

bool TaskQueue::Post(Task task) {
  const MutexLock lock(mutex_);
  if (ended_) return false;
  tasks_.push_back(std::move(task));
  wake_.NotifyOne();
  return true;
}

bool TaskQueue::PostAt(Clock::time_point time, Task task) {
  const MutexLock lock(mutex_);
  if (ended_) return false;
  timed_.emplace(time, std::move(task));
  wake_.NotifyOne();
  return true;
}

void TaskQueue::Stop() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    wake_.NotifyOne();
  }
  const MutexLock lock(join_mutex_);
  if (thread_.joinable()) thread_.join();
}

size_t TaskQueue::size() const {
  const MutexLock lock(mutex_);
  return tasks_.size();
}

bool TaskQueue::OnThisThread() const { return std::this_thread::get_id() == thread_id_; }

void TaskQueue::AssertOnThisThread() const {
  if (OnThisThread()) return;
  std::fprintf(stderr, "alignd: not on the thread of task queue %s\n", name_.c_str());
  std::abort();
}

void TaskQueue::Run() {
  // A missing name is only a nuisance in a debugger.
  (void)pthread_setname_np(pthread_self(), name_.substr(0, kMaxThreadName).c_str());
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
      return {};
    }
    if (timed_.empty()) {
      wake_.Wait(mutex_);
    } else {
      wake_.WaitUntil(mutex_, timed_.begin()->first);
    }
  }
}

}  // namespace alignd
