#include "daemon/moves.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "daemon/sd_notify.h"

namespace alignd::daemon {
namespace {

using allocation::AllocationManager;
using allocation::CpuMove;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kMovePoll{20};

std::optional<CpuSet> OriginalIn(const admission::NodeState& state, const ContainerKey& key) {
  const auto pod = state.cpu.originals.find(key.pod_uid);
  if (pod == state.cpu.originals.end()) return std::nullopt;
  const auto container = pod->second.find(key.container);
  if (container == pod->second.end()) return std::nullopt;
  return container->second;
}

// The main thread, which pings systemd's watchdog, waits here. Each step has a deadline of its own.
Clock::time_point BeginStep() {
  NotifySystemd("WATCHDOG=1");
  return Clock::now() + kMovePatience;
}

Result<Done> MoveOne(AllocationManager& allocation, const CpuMove& move, Clock::time_point until) {
  const auto answer = std::make_shared<std::promise<allocation::ResizeOutcome>>();
  auto outcome = answer->get_future();
  allocation.Move(move,
                  [answer](const allocation::ResizeOutcome& moved) { answer->set_value(moved); });
  if (outcome.wait_until(until) != std::future_status::ready) {
    return Error{ErrorCode::kDeadlineExceeded,
                 "the move of container " + move.key.container + " of pod " + move.key.pod_uid +
                     " has not been written in time",
                 "see whether the disk of the state directory hangs"};
  }
  const allocation::ResizeOutcome moved = outcome.get();
  if (const auto* const error = std::get_if<Error>(&moved)) return *error;
  return Done{};
}

// A container that moves and is not where it must be; empty: none.
std::string NotApplied(const std::vector<CpuMove>& moves,
                       const reconcile::ContainerRegistry& registry) {
  for (const admission::RunningContainer& container : registry.Containers()) {
    const auto move = std::ranges::find(moves, container.key, &CpuMove::key);
    if (move == moves.end() || registry.AppliedTo(container.id) == move->cpus) continue;
    return container.key.container + " of pod " + container.key.pod_uid;
  }
  return "";
}

void MoveBack(AllocationManager& allocation, const std::vector<CpuMove>& moves) {
  const Clock::time_point until = BeginStep();
  for (const CpuMove& move : moves) {
    const Result<Done> back = MoveOne(allocation, move, until);
    if (!back.ok()) spdlog::error("{}", back.error().Text());
  }
}

}  // namespace

Result<Done> MoveContainers(const admission::Transition& transition, AllocationManager& allocation,
                            const reconcile::ContainerRegistry& registry) {
  std::vector<CpuMove> done;
  std::vector<CpuMove> undo;
  const admission::NodeState before = allocation.snapshot()->state;
  const Clock::time_point written = BeginStep();
  for (const admission::ContainerTransition& container : transition.containers) {
    if (container.fate != admission::Fate::kMoves) continue;
    const CpuMove move{container.key, container.after.exclusive,
                       OriginalIn(transition.next, container.key)};
    const Result<Done> moved = MoveOne(allocation, move, written);
    if (!moved.ok()) {
      MoveBack(allocation, undo);
      return moved;
    }
    done.push_back(move);
    undo.push_back({container.key, container.before.exclusive, OriginalIn(before, container.key)});
  }
  const Clock::time_point until = BeginStep();
  for (;;) {
    const std::string missing = NotApplied(done, registry);
    if (missing.empty()) return Done{};
    if (Clock::now() >= until) {
      MoveBack(allocation, undo);
      return Error{ErrorCode::kDeadlineExceeded,
                   "container " + missing + " could not be moved within " +
                       std::to_string(kMovePatience.count()) +
                       " s; all containers are assigned their former CPUs again",
                   "see the conditions in `alignctl status`"};
    }
    std::this_thread::sleep_for(kMovePoll);
  }
}

}  // namespace alignd::daemon
