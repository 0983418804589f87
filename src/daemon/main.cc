// alignd: options, logging, signals, `Daemon`.
#include <absl/synchronization/mutex.h>
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <time.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>

#include "daemon/async_log.h"
#include "daemon/daemon.h"
#include "daemon/options.h"
#include "daemon/sd_notify.h"
#include "daemon/watchdog.h"

namespace {

using std::chrono::microseconds;

// Blocks the signals that stop alignd in every thread; the main thread waits for them.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Returns at SIGTERM or SIGINT. Until then it pings systemd's watchdog and reports lost log lines.
void WaitForStop(const sigset_t& signals, alignd::daemon::Watchdog& watchdog,
                 alignd::daemon::AsyncLog& log) {
  constexpr std::chrono::seconds kLogPeriod{10};
  const std::optional<microseconds> ping_period = alignd::daemon::WatchdogPeriod();
  const microseconds period = ping_period.value_or(kLogPeriod);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const std::chrono::nanoseconds rest = period - seconds;
  const timespec timeout{seconds.count(), rest.count()};
  for (;;) {
    if (ping_period) watchdog.Ping();
    if (sigtimedwait(&signals, nullptr, &timeout) > 0) return;
    log.ReportLostLines();
  }
}

int Finish(alignd::daemon::AsyncLog& log, int exit_status) {
  if (!log.Close()) std::_Exit(exit_status);
  return exit_status;
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's Abseil checks for deadlocks at every lock of gRPC, which takes a large part of the CPU
  // time of a relayed call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  int exit_status = EXIT_SUCCESS;
  const auto options = alignd::daemon::ParseOptions(argc, argv, exit_status);
  if (!options) return exit_status;
  signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = BlockStopSignals();  // before any thread starts
  alignd::daemon::AsyncLog log(options->log_level);

  auto daemon = alignd::daemon::Daemon::Start(*options);
  if (!daemon.ok()) {
    spdlog::error("cannot start: {}", daemon.error().Text());
    return Finish(log, EXIT_FAILURE);
  }
  spdlog::info("ready: {} -> {}", options->listen, options->runtime_endpoint);
  alignd::daemon::NotifySystemd("READY=1");
  {
    alignd::daemon::Watchdog watchdog((*daemon)->WatchedThreads());
    WaitForStop(signals, watchdog, log);
  }
  alignd::daemon::NotifySystemd("STOPPING=1");
  spdlog::info("stopping");
  daemon = std::unique_ptr<alignd::daemon::Daemon>();
  return Finish(log, EXIT_SUCCESS);
}
