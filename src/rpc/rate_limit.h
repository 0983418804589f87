// Limits the rate of an action, and allows short bursts.
#pragma once

#include <algorithm>
#include <chrono>

#include "sync/mutex.h"

namespace alignd::rpc {

// A bucket of tokens that fills evenly, full at the start. Thread-safe.
class RateLimit {
 public:
  using Clock = std::chrono::steady_clock;

  RateLimit(double per_second, int burst) : per_second_(per_second), burst_(burst) {}

  // Takes a token if there is one. A `now` before that of an earlier call is replaced by the
  // latest time.
  bool Allow(Clock::time_point now) {
    const MutexLock lock(mutex_);
    if (now > last_) {
      const std::chrono::duration<double> passed = now - last_;
      tokens_ = std::min(burst_, tokens_ + passed.count() * per_second_);
      last_ = now;
    }
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

 private:
  const double per_second_;
  const double burst_;

  Mutex mutex_;
  double tokens_ GUARDED_BY(mutex_) = burst_;
  Clock::time_point last_ GUARDED_BY(mutex_);
};

}  // namespace alignd::rpc
