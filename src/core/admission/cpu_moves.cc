#include "alignd/admission/cpu_moves.h"

#include <utility>

#include "alignd/cpumanager/resize.h"
#include "core/admission/own_cpus.h"
#include "core/admission/shared_node.h"

namespace alignd::admission {
namespace {

// The entry in `originals` of a container that had one, among other CPUs; none if the container has
// its original CPUs.
void MoveOriginal(const Node& node, const CpuMove& move, const CpuSet& now, NodeState& state) {
  const auto pod = state.cpu.originals.find(move.key.pod_uid);
  if (pod == state.cpu.originals.end()) return;
  const auto entry = pod->second.find(move.key.container);
  if (entry == pod->second.end()) return;
  CpuSet original = entry->second;
  if (!now.Contains(original)) {
    Result<CpuSet> kept = cpumanager::ChooseForResize(
        node.machine, CpuPolicyOf(node, state, move.key.pod_uid).options,
        {.kept = {}, .offered = now, .count = original.Count()});
    original = kept.ok() ? *std::move(kept) : now;
  }
  auto& originals = state.cpu.originals[move.key.pod_uid];
  if (original == now) {
    originals.erase(move.key.container);
  } else {
    originals[move.key.container] = std::move(original);
  }
  if (originals.empty()) state.cpu.originals.erase(move.key.pod_uid);
}

// The CPUs are within the affinity that is stored.
void WidenAffinity(const Node& node, const CpuMove& move, const CpuSet& now, NodeState& state) {
  const auto stored = state.affinities.find(move.key);
  if (stored == state.affinities.end() || !stored->second.affinity) return;
  const NumaMask nodes = node.machine.NumaOf(now);
  const NumaMask affinity = *stored->second.affinity;
  if (!affinity.Contains(nodes)) state.affinities[move.key] = {affinity | nodes, false};
}

// It is assigned these CPUs, and the others are free.
void Finish(const Node& node, const CpuMove& move, const CpuSet& now, NodeState& state) {
  state.cpu.moving.erase(move.key);
  cpumanager::ApplyResize(move.key, now, state.cpu);
  MoveOriginal(node, move, now, state);
  WidenAffinity(node, move, now, state);
}

Result<NodeState> Reserved(const Node& node, NodeState next, const std::vector<CpuMove>& moves) {
  const NodeState before = next;
  for (const CpuMove& move : moves) {
    const auto error = [&move](const std::string& why, const std::string& remedy = {}) {
      return Error{ErrorCode::kUnavailable,
                   "container " + move.key.container + " of pod " + move.key.pod_uid +
                       " cannot be moved from CPUs " + move.before.ToString() + " to " +
                       move.after.ToString() + ": " + why,
                   remedy.empty() ? "repeat the change" : remedy};
    };
    const CpuSet* const assigned = next.cpu.Find(move.key);
    if (!node.cpu || assigned == nullptr || *assigned != move.before) {
      return error("it has other CPUs now");
    }
    if (next.cpu.pods.contains(move.key.pod_uid)) return error("its pod has CPUs as a whole");
    if (next.cpu.moving.contains(move.key)) return error("it is being moved");
    const CpuSet added = move.after - move.before;
    const CpuSet taken = added - (next.cpu.default_set - node.cpu->reserved);
    if (!taken.empty()) return error("CPUs " + taken.ToString() + " are not free any more");
    cpumanager::ApplyResize(move.key, move.Both(), next.cpu);
    next.cpu.moving[move.key] = move.before;
    if (const auto numa = FindTooFewBacking(node, before, next)) {
      return error(
          "until the move ends, the container has both, and containers of the shared "
          "pool that stay on NUMA node " +
              std::to_string(*numa) + " request its other CPUs",
          "repeat the change; if that fails again, delete pods that stay there");
    }
  }
  return next;
}

}  // namespace

std::vector<CpuMove> MovesIn(const Transition& transition) {
  std::vector<CpuMove> moves;
  for (const ContainerTransition& container : transition.containers) {
    if (container.fate != Fate::kMoves) continue;
    moves.push_back({container.key, container.before.exclusive | container.before.offline,
                     container.after.exclusive | container.after.offline});
  }
  return moves;
}

std::vector<CpuMove> Unfinished(const NodeState& state, const std::vector<CpuMove>& moves) {
  std::vector<CpuMove> unfinished;
  for (const CpuMove& move : moves) {
    const CpuSet* const assigned = state.cpu.Find(move.key);
    if (assigned != nullptr && *assigned == move.Both()) unfinished.push_back(move);
  }
  return unfinished;
}

Result<NodeState> AfterStep(MoveStep step, const Node& node, const NodeState& state,
                            const std::vector<CpuMove>& moves) {
  if (step == MoveStep::kReserve) return Reserved(node, state, moves);
  NodeState next = state;
  for (const CpuMove& move : Unfinished(state, moves)) {
    switch (step) {
      case MoveStep::kReserve:
        break;
      case MoveStep::kGo:
        next.cpu.moving[move.key] = move.after;
        break;
      case MoveStep::kReturn:
        next.cpu.moving[move.key] = move.before;
        break;
      case MoveStep::kEnd:
        Finish(node, move, move.after, next);
        break;
      case MoveStep::kGiveBack:
        Finish(node, move, move.before, next);
        break;
    }
  }
  return next;
}

}  // namespace alignd::admission
