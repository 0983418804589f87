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

#include "daemon/daemon.h"
#include "daemon/options.h"
#include "daemon/sd_notify.h"

namespace {

// Signals that end us are waited for on the main thread and blocked everywhere else.
sigset_t BlockStopSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  return signals;
}

// Returns at SIGTERM or SIGINT; meanwhile tells systemd's watchdog that we live.
void WaitForStop(const sigset_t& signals) {
  const std::optional<std::chrono::microseconds> watchdog = alignd::daemon::WatchdogInterval();
  for (;;) {
    int signal = 0;
    if (!watchdog) {
      sigwait(&signals, &signal);
      return;
    }
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(*watchdog);
    const std::chrono::nanoseconds rest = *watchdog - seconds;
    const timespec timeout{seconds.count(), rest.count()};
    if (sigtimedwait(&signals, nullptr, &timeout) > 0) return;
    alignd::daemon::NotifySystemd("WATCHDOG=1");
  }
}

}  // namespace

int main(int argc, char** argv) {
  // Debian's Abseil looks for deadlocks at every lock that gRPC takes, for a good part of the CPU
  // time of a relayed call.
  absl::SetMutexDeadlockDetectionMode(absl::OnDeadlockCycle::kIgnore);
  int exit_status = EXIT_SUCCESS;
  const auto options = alignd::daemon::ParseOptions(argc, argv, exit_status);
  if (!options) return exit_status;
  spdlog::set_level(spdlog::level::from_str(options->log_level));
  signal(SIGPIPE, SIG_IGN);
  const sigset_t signals = BlockStopSignals();

  auto daemon = alignd::daemon::Daemon::Start(*options);
  if (!daemon.ok()) {
    spdlog::error("cannot start: {}", daemon.error().Text());
    return EXIT_FAILURE;
  }
  spdlog::info("ready: {} -> {}", options->listen, options->runtime_endpoint);
  alignd::daemon::NotifySystemd("READY=1");
  WaitForStop(signals);
  alignd::daemon::NotifySystemd("STOPPING=1");
  spdlog::info("stopping");
  daemon = std::unique_ptr<alignd::daemon::Daemon>();
  return EXIT_SUCCESS;
}
