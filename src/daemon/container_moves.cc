#include "daemon/container_moves.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>

#include "daemon/change_undo.h"
#include "daemon/moves_file.h"
#include "daemon/watchdog.h"
#include "host/durable_file.h"

namespace alignd::daemon {
namespace {

using admission::CpuMove;
using std::chrono::milliseconds;

constexpr milliseconds kListingPatience{10'000};
constexpr milliseconds kListingPoll{20};

// What is called while the main thread waits, so that systemd does not take alignd for hung.
class Pings {
 public:
  explicit Pings(Daemon& daemon) : watchdog_(daemon.WatchedThreads()) {}

  Result<Done> Await(std::future<Result<Done>> outcome) {
    while (outcome.wait_for(milliseconds(500)) != std::future_status::ready) Ping();
    return outcome.get();
  }
  void Ping() {
    if (WatchdogPeriod()) watchdog_.Ping();
  }

 private:
  Watchdog watchdog_;
};

}  // namespace

Result<Done> MoveContainers(Daemon& daemon, const Options& options,
                            const std::vector<CpuMove>& moves) {
  if (Result<Done> noted = MovesFile(options.state_dir).Write(moves); !noted.ok()) return noted;
  spdlog::info("moving {} containers to other exclusive CPUs, for the new configuration",
               moves.size());
  Result<Done> moved = Pings(daemon).Await(daemon.Move(moves));
  if (moved.ok()) return moved;
  spdlog::error("containers could not be moved, and are moved back: {}", moved.error().Text());
  const Result<Done> back = FinishMoves(daemon, options);
  Error error = moved.error().In("a container could not be moved");
  if (!back.ok()) error.message += "; " + back.error().message;
  if (!back.ok()) error.remedy = back.error().remedy;
  return error;
}

Result<Done> FinishMoves(Daemon& daemon, const Options& options) {
  const MovesFile file(options.state_dir);
  const Result<std::vector<CpuMove>> moves = file.Read();
  if (!moves.ok()) return moves.error();
  if (moves->empty()) return Done{};
  if (const Result<Done> back = Pings(daemon).Await(daemon.MoveBack(*moves)); !back.ok()) {
    return Error{ErrorCode::kUnavailable,
                 "containers that were being moved are not back on their CPUs, and are assigned "
                 "those of before and of after: " +
                     back.error().message,
                 "see in the log of the runtime why it refuses their updates, then send alignd "
                 "SIGHUP, or run `alignctl apply`"};
  }
  // First the record of the change: a start that finds only that of the moves has nothing to do.
  const Result<Done> removed = host::RemoveFile(options.state_dir / ChangeUndo::kFileName);
  return removed.ok() ? file.Remove() : removed;
}

Result<Done> FinishMovesOnceListed(Daemon& daemon, const Options& options) {
  Pings pings(daemon);
  const auto until = std::chrono::steady_clock::now() + kListingPatience;
  while (!daemon.HasAdopted() && std::chrono::steady_clock::now() < until) {
    pings.Ping();
    std::this_thread::sleep_for(kListingPoll);
  }
  return FinishMoves(daemon, options);
}

}  // namespace alignd::daemon
