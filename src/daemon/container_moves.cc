#include "daemon/container_moves.h"

#include <signal.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "alignd/base/counted.h"
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
constexpr milliseconds kStopPoll{500};

constexpr char kIsToStop[] = "alignd is about to stop";

// Whether a signal waits that ends alignd. The records of moves are for the next start, which has
// more time than systemd gives a stop.
bool IsToStop() {
  sigset_t pending;
  sigpending(&pending);
  sigdelset(&pending, SIGHUP);
  return sigisemptyset(&pending) == 0;
}

// What is called while the main thread waits, so that systemd does not take alignd for hung.
class Pings {
 public:
  explicit Pings(Daemon& daemon) : watchdog_(daemon.WatchedThreads()) {}

  // An error if alignd is to stop meanwhile; the work may then go on for a while.
  Result<Done> Await(std::future<Result<Done>> outcome) {
    while (outcome.wait_for(kStopPoll) != std::future_status::ready) {
      if (IsToStop()) return Error{ErrorCode::kUnavailable, kIsToStop, "start alignd again"};
      Ping();
    }
    return outcome.get();
  }
  void Ping() {
    if (WatchdogPeriod()) watchdog_.Ping();
  }

 private:
  Watchdog watchdog_;
};

// First the record of the change: a start that finds only that of the moves has nothing to do.
Result<Done> RemoveRecords(const Options& options) {
  const Result<Done> removed = host::RemoveFile(options.state_dir / ChangeUndo::kFileName);
  return removed.ok() ? MovesFile(options.state_dir).Remove() : removed;
}

Error NotBack(const std::string& why) {
  return {ErrorCode::kUnavailable,
          "containers that were being moved are not back on their CPUs, and are assigned those of "
          "before and of after: " +
              why,
          "see in the log of the runtime why it does not answer, or refuses their updates; alignd "
          "moves them back when the runtime does it"};
}

// Whether a container is assigned its CPUs of before and of after. If not, none has been moved yet,
// or all of them have ended.
bool HaveBegun(const Daemon& daemon, const std::vector<CpuMove>& moves) {
  return !admission::Unfinished(daemon.State(), moves).empty();
}

// Moves these back, and removes the records.
Result<Done> MoveBackAndForget(Daemon& daemon, const Options& options,
                               const std::vector<CpuMove>& moves) {
  if (moves.empty()) return Done{};
  if (!HaveBegun(daemon, moves)) return RemoveRecords(options);
  if (IsToStop()) return NotBack(kIsToStop);
  if (const Result<Done> back = Pings(daemon).Await(daemon.MoveBack(moves)); !back.ok()) {
    return NotBack(back.error().message);
  }
  return RemoveRecords(options);
}

}  // namespace

Result<Done> MoveContainers(Daemon& daemon, const Options& options,
                            const std::vector<CpuMove>& moves) {
  spdlog::info("moving {} to other exclusive CPUs, for the new configuration",
               Counted(moves.size(), "container"));
  Result<Done> moved = Pings(daemon).Await(daemon.Move(moves));
  if (moved.ok()) return moved;
  const bool have_begun = HaveBegun(daemon, moves);
  spdlog::error("{} {}",
                have_begun ? "containers could not be moved, and are moved back:"
                           : "containers could not be moved, and none has been:",
                moved.error().Text());
  Error error = moved.error().In("a container could not be moved");
  // The work goes on for a while, and may begin with the moves: the records are for the next start.
  if (!have_begun && IsToStop()) return error;
  const Result<Done> back = MoveBackAndForget(daemon, options, moves);
  if (!back.ok()) error.message += "; " + back.error().message;
  if (!back.ok()) error.remedy = back.error().remedy;
  return error;
}

Result<Done> FinishMoves(Daemon& daemon, const Options& options) {
  const MovesFile file(options.state_dir);
  const Result<std::vector<CpuMove>> moves = file.Read();
  if (!moves.ok()) return moves.error();
  return MoveBackAndForget(daemon, options, *moves);
}

bool PendingMoves::Find(const Options& options) {
  Result<std::vector<CpuMove>> moves = MovesFile(options.state_dir).Read();
  if (!moves.ok()) spdlog::error("{}", moves.error().Text());
  moves_ = moves.ok() ? *std::move(moves) : std::vector<CpuMove>();
  return !moves_.empty();
}

void PendingMoves::Look(Daemon& daemon, const Options& options) {
  if (moves_.empty()) return;
  if (!outcome_) {
    if (daemon.HasAdopted()) outcome_ = daemon.MoveBack(moves_);
    return;
  }
  if (outcome_->wait_for(milliseconds(0)) != std::future_status::ready) return;
  const Result<Done> back = outcome_->get();
  outcome_.reset();
  if (!back.ok()) return;  // the condition of the container's update says why
  if (const Result<Done> removed = RemoveRecords(options); !removed.ok()) {
    spdlog::error("the record of moves is left: {}", removed.error().Text());
    return;
  }
  moves_.clear();
  spdlog::info("the containers of a change that did not end are back on their CPUs");
}

void PendingMoves::Await(Daemon& daemon) {
  if (!outcome_) return;
  // What came of it is seen by FinishMoves.
  if (const Result<Done> back = Pings(daemon).Await(*std::exchange(outcome_, std::nullopt));
      !back.ok()) {
    spdlog::debug("containers are not back yet: {}", back.error().Text());
  }
}

Result<Done> FinishMovesOnceListed(Daemon& daemon, const Options& options,
                                   const std::vector<CpuMove>& moves) {
  if (moves.empty()) return Done{};
  Pings pings(daemon);
  const auto until = std::chrono::steady_clock::now() + kListingPatience;
  while (!daemon.HasAdopted() && !IsToStop() && std::chrono::steady_clock::now() < until) {
    pings.Ping();
    std::this_thread::sleep_for(kListingPoll);
  }
  // Which containers run is not known otherwise: each of them would count as back.
  if (!daemon.HasAdopted()) return NotBack("the runtime has not been listed");
  return MoveBackAndForget(daemon, options, moves);
}

}  // namespace alignd::daemon
