#include "metrics/liveness.h"

#include <utility>

namespace alignd::metrics {

Liveness::Liveness(std::map<std::string, Post> threads, std::chrono::milliseconds patience)
    : threads_(std::move(threads)), patience_(patience) {}

std::vector<std::string> Liveness::Silent() {
  const auto until = std::chrono::steady_clock::now() + patience_;
  const std::shared_ptr<Round> round = CurrentRound();
  const MutexLock lock(round->mutex);
  while (!round->pending.empty() && round->answered.WaitUntil(round->mutex, until)) {
  }
  return {round->pending.begin(), round->pending.end()};
}

std::shared_ptr<Liveness::Round> Liveness::CurrentRound() {
  const MutexLock lock(mutex_);
  if (round_) {
    const MutexLock round_lock(round_->mutex);
    const bool is_new = std::chrono::steady_clock::now() - began_ < kReuse;
    if (is_new || !round_->pending.empty()) return round_;
  }
  round_ = std::make_shared<Round>();
  began_ = std::chrono::steady_clock::now();
  {
    const MutexLock round_lock(round_->mutex);
    for (const auto& [thread, post] : threads_) round_->pending.insert(thread);
  }
  for (const auto& [thread, post] : threads_) {
    post([round = round_, thread = thread] {
      const MutexLock round_lock(round->mutex);
      round->pending.erase(thread);
      round->answered.NotifyAll();
    });
  }
  return round_;
}

}  // namespace alignd::metrics
