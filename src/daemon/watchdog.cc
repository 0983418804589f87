#include "daemon/watchdog.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/sd_notify.h"

namespace alignd::daemon {
namespace {

// A ping follows its round by one period at the latest. With four periods in the interval, a thread
// may be busy for half of the interval without a missed ping.
constexpr uint64_t kPeriodsPerInterval = 4;

// A file system that hangs may block this thread. After a restart it would block it again, and each
// restart ends the calls under way.
constexpr std::string_view kNotHelped = "plugins";

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
    Begin({});
    return false;
  }
  Pending pending;
  {
    const MutexLock lock(round_->mutex);
    pending = round_->pending;
  }
  for (const auto& [thread, since] : pending) {
    const auto waited = std::chrono::duration_cast<std::chrono::seconds>(Clock::now() - since);
    spdlog::error("watchdog: thread `{}` has not answered for {} s", thread, waited.count());
  }
  const auto needs_restart = [](const auto& entry) { return entry.first != kNotHelped; };
  if (std::ranges::any_of(pending, needs_restart)) return false;
  NotifySystemd("WATCHDOG=1");
  Begin(pending);
  return true;
}

void Watchdog::Begin(const Pending& hung) {
  std::vector<std::string> asked;
  {
    if (!round_) round_ = std::make_shared<Round>();
    const MutexLock lock(round_->mutex);
    for (const auto& [thread, post] : threads_) {
      if (hung.contains(thread)) continue;  // has the task of an earlier round
      round_->pending[thread] = Clock::now();
      asked.push_back(thread);
    }
  }
  for (const std::string& thread : asked) {
    threads_.at(thread)([round = round_, thread] {
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
