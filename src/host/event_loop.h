// One thread that waits for files, for times and for what others ask of it.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "alignd/base/result.h"
#include "host/descriptor.h"
#include "sync/mutex.h"

namespace alignd::host {

class EventLoop {
 public:
  using Clock = std::chrono::steady_clock;

  // Who is told that a file is ready. On the loop's thread; must not block.
  class Watcher {
   public:
    virtual void OnReady(uint32_t events) = 0;  // as of epoll

   protected:
    ~Watcher() = default;
  };

  // Errors: kIo.
  static Result<std::shared_ptr<EventLoop>> Make();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;
  // Stopped, or never started.
  ~EventLoop() = default;

  void Start();
  // Returns when the thread has ended; what is posted from then on is dropped. Not on the loop's
  // thread.
  void Stop() EXCLUDES(mutex_);

  // Has the loop's thread run this, soon and in order. Thread-safe. Dropped after Stop.
  void Post(std::function<void()> task) EXCLUDES(mutex_);

  // --- On the loop's thread, or before Start.

  // Errors: kIo. The watcher stays until Unwatch.
  Result<Done> Watch(int fd, uint32_t events, Watcher& watcher);
  void Change(int fd, uint32_t events);
  void Unwatch(int fd);
  void After(Clock::duration delay, std::function<void()> task);
  // Runs it once when all that is ready has been dealt with, before the next wait.
  void AtEndOfRound(std::function<void()> task) { at_end_.push_back(std::move(task)); }

 private:
  EventLoop(host::Descriptor epoll, host::Descriptor wake)
      : epoll_(std::move(epoll)), wake_(std::move(wake)) {}

  void Run();
  int MillisecondsToNext() const;
  void RunDue();
  void RunPosted() EXCLUDES(mutex_);

  const host::Descriptor epoll_;
  const host::Descriptor wake_;  // an eventfd
  std::map<int, Watcher*> watchers_;
  std::multimap<Clock::time_point, std::function<void()>> timers_;
  std::vector<std::function<void()>> at_end_;
  bool ended_ = false;  // the loop's thread is to end
  std::thread thread_;

  Mutex mutex_;
  std::vector<std::function<void()>> posted_ GUARDED_BY(mutex_);
  bool stopped_ GUARDED_BY(mutex_) = false;
};

}  // namespace alignd::host
