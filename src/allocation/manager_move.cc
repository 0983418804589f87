// The allocation manager and containers that move to other exclusive CPUs, because a change of the
// configuration wants them elsewhere.
#include <optional>
#include <string>
#include <utility>

#include "allocation/allocation_manager.h"
#include "allocation/current_assignment.h"
#include "allocation/reservation.h"
#include "allocation/state_limits.h"

namespace alignd::allocation {
namespace {

// Why the container cannot have these CPUs; empty: it can.
std::string WhyNot(const admission::Node& node, const admission::NodeState& state,
                   const CpuMove& move) {
  const CpuSet* const own = state.cpu.Find(move.key);
  if (!node.cpu || own == nullptr) return "it has no exclusive CPUs any more";
  if (own->Count() != move.cpus.Count()) return "it has been resized";
  const CpuSet reserved = move.cpus & node.cpu->reserved;
  if (!reserved.empty()) return "CPUs " + reserved.ToString() + " are still reserved";
  const CpuSet taken = move.cpus - *own - state.cpu.default_set;
  return taken.empty() ? "" : "CPUs " + taken.ToString() + " are not free any more";
}

admission::NodeState After(admission::NodeState state, const CpuMove& move) {
  cpumanager::CpuState& cpu = state.cpu;
  auto& containers = cpu.assignments[move.key.pod_uid];
  const CpuSet before = containers[move.key.container];
  containers[move.key.container] = move.cpus;
  cpu.default_set = (cpu.default_set | (before - cpu.HeldBy(move.key.pod_uid))) - move.cpus;
  if (const auto pod = cpu.originals.find(move.key.pod_uid); pod != cpu.originals.end()) {
    const bool was_resized = pod->second.contains(move.key.container);
    if (was_resized) {
      cpu.originals[move.key.pod_uid][move.key.container] = move.original.value_or(move.cpus);
    }
  }
  // What the topology manager has decided does not hold for the new CPUs.
  state.affinities.erase(move.key);
  return state;
}

}  // namespace

void AllocationManager::Move(CpuMove move, ResizeDone done) {
  const bool posted = queue_->Post(
      [this, move = std::move(move), done]() mutable { StartMove(move, std::move(done)); });
  if (!posted) done(AligndStops());
}

// As a resize: the CPUs of before and of after are reserved until the move is on the disk.
void AllocationManager::StartMove(const CpuMove& move, ResizeDone done) {
  queue_->AssertOnThisThread();
  if (stopping_) return done(AligndStops());
  const std::string& pod_uid = move.key.pod_uid;
  const admission::NodeState& state = ledger_.state();
  std::string why = WhyNot(node_, state, move);
  if (IsBeingAdmitted(pod_uid)) why = "its pod is being admitted";
  if (resizes_.contains(pod_uid)) why = "another change of its CPUs is being written";
  if (!why.empty()) {
    return done(
        Error{ErrorCode::kUnavailable,
              "container " + move.key.container + " of pod " + pod_uid + " does not move: " + why,
              "repeat the change of the configuration"});
  }
  const CpuSet cpus = move.cpus;
  const admission::NodeState next = After(state, move);
  if (const Result<Done> fits = RequireReadable(next); !fits.ok()) return done(fits.error());
  Pod pod;
  pod.uid = pod_uid;
  resizes_.emplace(pod_uid,
                   ResizeUnderWay{std::move(pod), move.key.container, state, std::move(done), {}});
  ledger_.ReserveResize(ResizeOf(move.key, state, next));
  ledger_.Commit(pod_uid, [this, pod_uid, cpus](const Result<Done>& saved) {
    FinishResize(pod_uid, saved.ok() ? ResizeOutcome(cpus) : ResizeOutcome(saved.error()));
  });
}

}  // namespace alignd::allocation
