// Moves of running containers from exclusive CPUs to other ones, before the configuration changes.
// Pure functions over the state, one for each step; docs/architecture.md has their order.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/admission/transition.h"
#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// A value. The two sets have as many CPUs, and may have some together.
struct CpuMove {
  ContainerKey key;
  CpuSet before;
  CpuSet after;

  CpuSet Both() const { return before | after; }

  friend bool operator==(const CpuMove&, const CpuMove&) = default;
};

// The steps of a move, in order. Until the last one, the container has the CPUs of before and of
// after, so that no other container is assigned one of them, whatever becomes of the move.
enum class MoveStep {
  kReserve,   // it is assigned both, and runs on those of before
  kGo,        // it is to run on those of after
  kReturn,    // instead, or after kGo: on those of before
  kEnd,       // it is assigned those of after only; it has left the others
  kGiveBack,  // after kReturn: those of before only; likewise
};

// The containers that move in the plan.
std::vector<CpuMove> MovesIn(const Transition& transition);

// Of `moves`, those whose container is assigned the CPUs of before and of after.
std::vector<CpuMove> Unfinished(const NodeState& state, const std::vector<CpuMove>& moves);

// The state after the step. All but kReserve do it for the unfinished moves only: other containers
// have ended, or been moved. A container that was resized can be resized to as few CPUs as before.
// Errors: kUnavailable: a container has other CPUs than before, or some of the CPUs of after are
// not free any more. Only of kReserve.
Result<NodeState> AfterStep(MoveStep step, const Node& node, const NodeState& state,
                            const std::vector<CpuMove>& moves);

}  // namespace alignd::admission
