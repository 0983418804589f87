// alignd: options, logging, signals, `Daemon`.
#include <pthread.h>
#include <signal.h>
#include <spdlog/spdlog.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "daemon/async_log.h"
#include "daemon/config_changes.h"
#include "daemon/container_moves.h"
#include "daemon/daemon.h"
#include "daemon/log_sinks.h"
#include "daemon/options.h"
#include "daemon/reload.h"
#include "daemon/sd_notify.h"
#include "daemon/start_check.h"
#include "daemon/watchdog.h"
#include "host/log_event.h"
#include "host/printable.h"
#include "host/program_pages.h"

namespace {

using std::chrono::microseconds;

// Blocks, in every thread, the signals that programs send and that would otherwise end the process
// at once: calls under way would be lost. The main thread waits for them. Signals of the kernel
// about a fault, such as SIGSEGV, still end the process.
sigset_t BlockSignals() {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM,
                           SIGPROF, SIGIO, SIGPWR, SIGSTKFLT, SIGXCPU}) {
    sigaddset(&signals, signal);
  }
  for (int signal = SIGRTMIN; signal <= SIGRTMAX; ++signal) sigaddset(&signals, signal);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  // A write to a closed pipe, or to a file that has reached its limit, is an error of that call.
  signal(SIGPIPE, SIG_IGN);
  signal(SIGXFSZ, SIG_IGN);
  return signals;
}

// Whether the signal ends alignd. Logs each such signal.
bool IsStop(int signal) {
  if (signal == SIGHUP) return false;
  const char* const name = sigabbrev_np(signal);
  alignd::host::LogEvent(alignd::host::kLogStopping, spdlog::level::info, {},
                         "stopping: received " + (name == nullptr ? std::to_string(signal)
                                                                  : "SIG" + std::string(name)));
  return true;
}

// Returns at a signal. Until then it pings systemd's watchdog, reports lost log lines and calls
// `look`.
int WaitForSignal(const sigset_t& signals, alignd::daemon::Watchdog& watchdog,
                  alignd::daemon::AsyncLog& log, const std::function<void()>& look) {
  constexpr std::chrono::seconds kLogPeriod{10};
  const std::optional<microseconds> ping_period = alignd::daemon::WatchdogPeriod();
  const microseconds period = ping_period.value_or(kLogPeriod);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(period);
  const std::chrono::nanoseconds rest = period - seconds;
  const timespec timeout{seconds.count(), rest.count()};
  for (;;) {
    if (ping_period) watchdog.Ping();
    if (const int signal = sigtimedwait(&signals, nullptr, &timeout); signal > 0) return signal;
    log.ReportLostLines();
    look();
  }
}

// --check. Returns the exit status.
int Check(const alignd::daemon::Options& options) {
  const alignd::daemon::StartCheck check = alignd::daemon::CheckStart(options);
  if (options.check_output == "json") {
    std::cout << alignd::daemon::StartCheckJson(check) << '\n';
  } else {
    const alignd::host::PrintableStream printable(std::cout);
    alignd::daemon::PrintStartCheck(check, /*wide=*/false, std::cout);
  }
  if (std::cout.flush()) return check.ExitStatus();
  std::cerr << "alignd: standard output cannot be written; check the disk or the pipe\n";
  return EXIT_FAILURE;
}

// All that is in the way of a start: the operator corrects it once, not in several attempts.
void LogOtherProblems(const alignd::daemon::Options& options, const std::string& logged) {
  for (const alignd::daemon::StartProblem& problem : alignd::daemon::CheckStart(options).problems) {
    if (logged.find(problem.error.message) != std::string::npos) continue;
    spdlog::error("cannot start, also: {}", problem.AsError().Text());
  }
}

enum class Reloaded {
  kTooEarly,        // a SIGHUP before the runtime was listed: it has to be repeated then
  kRefusedRequest,  // of alignctl, which has the reason
  kOver,
};

// SIGHUP, or a request of alignctl. `daemon` is null after it if alignd has to end.
Reloaded Reload(std::unique_ptr<alignd::daemon::Daemon>& daemon,
                const alignd::daemon::Options& options, alignd::daemon::ConfigChanges& changes) {
  const alignd::daemon::WantedChange change = changes.Take();
  // After a start, or right after another change. The caller of SIGHUP gets no answer, and would
  // not repeat it; alignctl does.
  if (change.number == 0 && !daemon->HasAdopted()) {
    spdlog::info("received SIGHUP: alignd reloads once the runtime has been listed");
    alignd::daemon::NotifySystemd("READY=1");
    return Reloaded::kTooEarly;
  }
  spdlog::info("reloading: {}", change.number == 0 ? "received SIGHUP" : "requested by alignctl");
  const alignd::Result<alignd::Done> result =
      alignd::daemon::ChangeConfig(daemon, options, changes, change);
  if (result.ok()) {
    spdlog::info("reloaded: the configuration applies");
  } else {
    spdlog::error("not reloaded: {}", result.error().Text());
  }
  changes.Ended(change, result);
  if (daemon) {
    daemon->CheckConfigFile();
    alignd::daemon::NotifySystemd("READY=1");
  }
  return change.number != 0 && !result.ok() ? Reloaded::kRefusedRequest : Reloaded::kOver;
}

// As LimitNOFILE= in systemd/alignd.service, for an alignd that a shell or a container starts: each
// running container and each connection takes a descriptor, and a shell usually allows 1,024.
void RaiseDescriptorLimit() {
  constexpr rlim_t kWanted = 65536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= kWanted) return;
  limit.rlim_cur = std::min(kWanted, limit.rlim_max);
  setrlimit(RLIMIT_NOFILE, &limit);  // the soft limit may always be raised to the other
}

int Finish(alignd::daemon::AsyncLog& log, int exit_status) {
  if (!log.Close()) std::_Exit(exit_status);
  return exit_status;
}

}  // namespace

int main(int argc, char** argv) {
  int exit_status = EXIT_SUCCESS;
  const auto options = alignd::daemon::ParseOptions(argc, argv, exit_status);
  if (!options) return exit_status;
  if (options->check) return Check(*options);
  // Only the owner can use what alignd makes until it has set the mode that it documents.
  umask(S_IRWXG | S_IRWXO);
  RaiseDescriptorLimit();
  const sigset_t signals = BlockSignals();  // before any thread starts
  alignd::daemon::AsyncLog log(
      options->log_level, alignd::daemon::MakeLogSink(alignd::daemon::ChooseLogFormat(
                              options->log_format, STDOUT_FILENO, std::getenv("JOURNAL_STREAM"))));

  alignd::daemon::ConfigChanges changes(
      *options, [main_thread = pthread_self()] { pthread_kill(main_thread, SIGHUP); });
  auto started = alignd::daemon::Daemon::Start(*options, &changes);
  if (!started.ok()) {
    spdlog::error("cannot start: {}", started.error().Text());
    LogOtherProblems(*options, started.error().Text());
    return Finish(log, EXIT_FAILURE);
  }
  std::unique_ptr<alignd::daemon::Daemon> daemon = *std::move(started);
  changes.Started(daemon->StartedWith());
  alignd::daemon::PendingMoves pending;
  // Whether a reload is to come without a further SIGHUP: once the containers are known, and those
  // of an interrupted change are back. That change is repeated then.
  bool reloads_later = pending.Find(*options);
  const auto hang_up = [main_thread = pthread_self()] { pthread_kill(main_thread, SIGHUP); };
  if (reloads_later) daemon->WhenAdopted(hang_up);
  alignd::host::LogEvent(alignd::host::kLogReady, spdlog::level::info, {},
                         "ready: " + options->listen + " -> " + options->runtime_endpoint);
  alignd::daemon::NotifySystemd("READY=1");
  while (daemon) {
    {
      alignd::daemon::Watchdog watchdog(daemon->WatchedThreads());
      bool is_new = true;  // as after each reload
      const auto look = [&] {
        if (is_new && daemon->HasAdopted()) {
          alignd::host::LeaveProgramPages();
          is_new = false;
        }
        pending.Look(*daemon, *options);
        if (reloads_later && daemon->HasAdopted() && pending.empty()) hang_up();
      };
      if (IsStop(WaitForSignal(signals, watchdog, log, look))) break;
    }
    pending.Await(*daemon);
    const Reloaded reloaded = Reload(daemon, *options, changes);
    const bool has_moves = pending.Find(*options);
    if (reloaded == Reloaded::kTooEarly) {
      reloads_later = true;
      daemon->WhenAdopted(hang_up);
    } else if (reloaded == Reloaded::kOver && !has_moves) {
      reloads_later = false;
    }
  }
  const bool has_failed = daemon == nullptr;
  alignd::daemon::NotifySystemd("STOPPING=1");
  daemon.reset();
  return Finish(log, has_failed ? EXIT_FAILURE : EXIT_SUCCESS);
}
