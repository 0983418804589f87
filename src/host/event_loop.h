// One thread that waits for file descriptors, for times and for tasks of other threads.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "host/descriptor.h"
#include "sync/mutex.h"

namespace alignd::host {

// It uses epoll directly, not libsystemd's sd-event: sd-event dispatches one event source for each
// epoll_wait. With eight connections ready at once, that costs 5 to 7 us of CPU time per event
// instead of 3.3 us; a relayed call has several events and costs 13 us in all.
class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;

  // Is called when its file descriptor is ready. On the loop's thread; must not block.
  class Watcher {
   public:
    virtual void OnReady(uint32_t events) = 0;  // as of epoll

   protected:
    ~Watcher() = default;
  };

  // `name` is what debuggers and `top -H` show of the thread, at most 15 bytes of it.
  // Errors: kIo.
  static Result<std::shared_ptr<EventLoop>> Make(std::string name = "events");
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // The loop has been stopped, or was never started.
  ~EventLoop() = default;

  void Start();
  // Returns when the thread has ended. Tasks that are posted from then on are dropped, and so are
  // those of `After` that are not due yet. Not on the loop's thread.
  void Stop() EXCLUDES(mutex_);

  // Runs the task on the loop's thread, soon and in the order of posting. Thread-safe. After Stop
  // the task is dropped.
  void Post(std::function<void()> task) EXCLUDES(mutex_);

  // Whether the caller is on the loop's thread. Thread-safe.
  bool OnThisThread() const { return std::this_thread::get_id() == thread_id_; }

  // --- On the loop's thread, or while it does not run. In every build, the program ends if another
  // thread calls one of these: a connection could else be closed and its number be used again.

  // Calls the watcher whenever one of `events` is ready, until Unwatch. Errors: kIo.
  Result<Done> Watch(int fd, uint32_t events, Watcher& watcher);
  void Change(int fd, uint32_t events);
  void Unwatch(int fd);
  // A task that waits for its time.
  using Timer = std::multimap<Clock::time_point, std::function<void()>>::iterator;
  Timer After(Clock::duration delay, std::function<void()> task);
  // Drops the task, which has not begun. Not after Stop.
  void Cancel(Timer timer);
  // Runs the task once, after all descriptors that are ready were handled and before the next wait.
  void AtEndOfRound(std::function<void()> task) {
    AssertOnThisThread();
    at_end_.push_back(std::move(task));
  }

 private:
  EventLoop(std::string name, Descriptor epoll, Descriptor wake)
      : name_(std::move(name)), epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  void AssertOnThisThread() const;
  void Run();
  int MillisecondsToNext() const;
  void RunDue();
  void RunPosted() EXCLUDES(mutex_);

  const std::string name_;
  const Descriptor epoll_;
  const Descriptor wake_;  // an eventfd
  std::map<int, Watcher*> watchers_;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  std::vector<std::function<void()>> at_end_;
  bool ended_ = false;  // the loop's thread is to end
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_;  // once the thread runs
  std::atomic<bool> runs_ = false;          // from Start to the end of the thread

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace alignd::host
