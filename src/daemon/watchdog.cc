#include "daemon/watchdog.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>

#include <cstdint>
#include <utility>

#include "daemon/sd_notify.h"

namespace alignd::daemon {
namespace {

// A ping follows its round by one period at the latest. With four periods in the interval, a thread
// may be busy for half of the interval without a missed ping.
constexpr uint64_t kPeriodsPerInterval = 4;

}  // namespace

Watchdog::Watchdog(std::map<std::string, Post> threads) : threads_(std::move(threads)) {}

bool Watchdog::Ping() {
  if (!round_) {
    Begin();
    return false;
  }
  std::map<std::string, Clock::time_point> pending;
  {
    const MutexLock lock(round_->mutex);
    pending = round_->pending;
  }
  for (const auto& [thread, since] : pending) {
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since);
    spdlog::error("watchdog: thread `{}` has not answered for {} s", thread, waited.count());
  }
  if (!pending.empty()) return false;
  NotifySystemd("WATCHDOG=1");
  Begin();
  return true;
}

void Watchdog::Begin() {
  round_ = std::make_shared<Round>();
  {
    const MutexLock lock(round_->mutex);
    for (const auto& [thread, post] : threads_) round_->pending[thread] = Clock::now();
  }
  for (const auto& [thread, post] : threads_) {
    post([round = round_, thread = thread] {
      const MutexLock lock(round->mutex);
      round->pending.erase(thread);
    });
  }
}

std::optional<std::chrono::microseconds> WatchdogPeriod() {
  uint64_t usec = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &usec) <= 0) return std::nullopt;
  return std::chrono::microseconds(usec / kPeriodsPerInterval);
}

}  // namespace alignd::daemon
