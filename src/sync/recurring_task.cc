#include "sync/recurring_task.h"

#include <algorithm>
#include <utility>

#include "sync/mutex.h"

namespace alignd {

class RecurringTask::State : public std::enable_shared_from_this<State> {
 public:
  State(TaskQueue& queue, Run run) : queue_(queue), run_(std::move(run)) {}

  void RunSoon() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    Request();
  }

  void Stop() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    stopped_ = true;
    while (running_) ended_.Wait(mutex_);
  }

 private:
  void Request() REQUIRES(mutex_) {
    if (stopped_ || requested_) return;
    requested_ = queue_.Post([self = shared_from_this()] { self->RunNow(); });
  }

  void RunNow() EXCLUDES(mutex_) {
    {
      const MutexLock lock(mutex_);
      requested_ = false;
      if (stopped_) return;
      running_ = true;
    }
    const Clock::time_point next = run_();
    const MutexLock lock(mutex_);
    running_ = false;
    ended_.NotifyAll();
    due_ = next;
    SetTimer();
  }

  // A queue cannot take a task back. A timer that is too early is set again when it fires.
  void SetTimer() REQUIRES(mutex_) {
    if (stopped_ || due_ >= timer_) return;
    timer_ = due_;
    queue_.PostAt(due_, [self = shared_from_this(), time = due_] { self->OnTimer(time); });
  }

  void OnTimer(Clock::time_point time) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    if (time == timer_) timer_ = kNever;
    if (due_ <= Clock::now()) {
      Request();
    } else {
      SetTimer();
    }
  }

  TaskQueue& queue_;  // not used once stopped
  const Run run_;

  Mutex mutex_;
  CondVar ended_;
  bool stopped_ GUARDED_BY(mutex_) = false;
  bool requested_ GUARDED_BY(mutex_) = false;  // a run is in the queue
  bool running_ GUARDED_BY(mutex_) = false;
  Clock::time_point due_ GUARDED_BY(mutex_) = kNever;    // the next run without a request
  Clock::time_point timer_ GUARDED_BY(mutex_) = kNever;  // the earliest timer in the queue
};

RecurringTask::RecurringTask(TaskQueue& queue, Run run)
    : state_(std::make_shared<State>(queue, std::move(run))) {}

RecurringTask::~RecurringTask() { Stop(); }

void RecurringTask::RunSoon() { state_->RunSoon(); }

void RecurringTask::Stop() { state_->Stop(); }

}  // namespace alignd
