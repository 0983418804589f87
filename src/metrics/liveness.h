// Whether alignd's threads answer: the view of systemd's watchdog, for a probe.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "sync/mutex.h"

namespace alignd::metrics {

// Thread-safe.
class Liveness {
 public:
  static constexpr std::chrono::milliseconds kReuse{250};

  // Has a thread run the task. May drop it.
  using Post = std::function<void(std::function<void()> task)>;

  // The threads that must answer, by name.
  Liveness(std::map<std::string, Post> threads, std::chrono::milliseconds patience);
  Liveness(const Liveness&) = delete;
  Liveness& operator=(const Liveness&) = delete;

  // Has each thread run a task, and waits for them for `patience` at most. Returns the names of
  // those that have not answered. However often it is called, a thread has one task to run at a
  // time, and one in kReuse: callers in between get the answers of the same.
  std::vector<std::string> Silent();

 private:
  // Shared with the tasks: a late one may run after this object is destroyed.
  struct Round {
    Mutex mutex;
    CondVar answered;
    std::set<std::string> pending GUARDED_BY(mutex);
  };

  std::shared_ptr<Round> CurrentRound();

  const std::map<std::string, Post> threads_;
  const std::chrono::milliseconds patience_;
  Mutex mutex_;
  std::shared_ptr<Round> round_ GUARDED_BY(mutex_);  // null before the first
  std::chrono::steady_clock::time_point began_ GUARDED_BY(mutex_);
};

}  // namespace alignd::metrics
