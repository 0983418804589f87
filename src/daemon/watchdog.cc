#include "daemon/watchdog.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "daemon/sd_notify.h"

namespace alignd::daemon {
namespace {

// A ping follows its round by one period at the latest. With four periods in the interval, a thread
// may be busy for half of the interval without a missed ping.
constexpr uint64_t kPeriodsPerInterval = 4;

// The number in an environment variable; nullopt if it is not set or is something else.
std::optional<uint64_t> EnvironmentNumber(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits = text;
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return number;
}

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
  const std::optional<uint64_t> interval = EnvironmentNumber("WATCHDOG_USEC");
  if (!interval || *interval == 0) return std::nullopt;
  // WATCHDOG_PID names the process that must ping; without it, any process may.
  if (std::getenv("WATCHDOG_PID") != nullptr &&
      EnvironmentNumber("WATCHDOG_PID") != static_cast<uint64_t>(getpid())) {
    return std::nullopt;
  }
  return std::chrono::microseconds(*interval / kPeriodsPerInterval);
}

}  // namespace alignd::daemon
