// An event that a test waits for, with a time limit.
#pragma once

#include <chrono>

#include "sync/mutex.h"

namespace alignd::testing {

// Opens once. Thread-safe.
class Gate {
 public:
  void Open() {
    MutexLock lock(mutex_);
    open_ = true;
    changed_.NotifyAll();
  }

  // Whether it is open, after at most `limit`.
  bool Wait(std::chrono::milliseconds limit = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + limit;
    MutexLock lock(mutex_);
    while (!open_) {
      if (!changed_.WaitUntil(mutex_, deadline)) break;
    }
    return open_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool open_ GUARDED_BY(mutex_) = false;
};

}  // namespace alignd::testing
