// How many calls are under way, and a way to wait until there is none.
#pragma once

#include <memory>
#include <utility>

#include "sync/mutex.h"

namespace alignd::cri {

// Thread-safe.
class CallCount {
 public:
  // Counts one for as long as it lives.
  class Entry {
   public:
    explicit Entry(std::shared_ptr<CallCount> count) : count_(std::move(count)) { count_->Add(1); }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;
    ~Entry() { count_->Add(-1); }

   private:
    const std::shared_ptr<CallCount> count_;
  };

  void WaitForZero() {
    MutexLock lock(mutex_);
    while (count_ > 0) zero_.Wait(mutex_);
  }

 private:
  void Add(int change) {
    MutexLock lock(mutex_);
    count_ += change;
    if (count_ == 0) zero_.NotifyAll();
  }

  Mutex mutex_;
  CondVar zero_;
  int count_ GUARDED_BY(mutex_) = 0;
};

}  // namespace alignd::cri
