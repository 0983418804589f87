// Reports to systemd's watchdog that alignd's threads work.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "sync/mutex.h"

namespace alignd::daemon {

// One thread at a time.
class Watchdog {
 public:
  using Clock = std::chrono::steady_clock;
  // Has a thread run the task. May drop it.
  using Post = std::function<void(std::function<void()> task)>;

  // The threads that must answer, by name.
  explicit Watchdog(std::map<std::string, Post> threads);

  // If every thread has run the task of the round before: sends WATCHDOG=1 to systemd, begins the
  // next round, and returns true. The first call only begins a round. While a thread does not
  // answer, a log line names the thread and the ping is not sent; it is sent all the same if the
  // thread is `plugins`, which a restart would not help.
  bool Ping();

 private:
  using Pending = std::map<std::string, Clock::time_point>;  // since when, by thread

  // Of all rounds. Shared with the tasks: a late one may run after the watchdog is destroyed.
  struct Round {
    Mutex mutex;
    Pending pending GUARDED_BY(mutex);
  };

  // Asks all threads but those that still have a task.
  void Begin(const Pending& hung);

  const std::map<std::string, Post> threads_;
  std::shared_ptr<Round> round_;  // null before the first
};

// How often to call Ping so that systemd's watchdog is satisfied; nullopt if it is not used.
// Source: sd_watchdog_enabled(3).
std::optional<std::chrono::microseconds> WatchdogPeriod();

}  // namespace alignd::daemon
