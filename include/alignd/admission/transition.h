// The change of a node's configuration while its containers run: what stays where it is, what
// moves, and what cannot be satisfied. `PlanTransition` decides, as one pure function: the next
// state is part of the result, so a change that is refused has nothing to undo.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// Whether the plan gives containers with exclusive CPUs others if they cannot stay.
enum class MayMove { kNever, kIfNeeded };

enum class Fate {
  kStays,
  kMoves,    // to other CPUs; memory and devices stay
  kRefused,  // it cannot be satisfied: the change is refused
};

// What the change means for a container that is assigned exclusive CPUs, memory or devices.
struct ContainerTransition {
  ContainerKey key;
  Fate fate = Fate::kStays;
  Assignment before;
  Assignment after;  // unless it moves, its exclusive CPUs and memory nodes are those of `before`
  // What the new configuration does not allow; if it is refused, also why it cannot move. Empty if
  // it stays.
  std::string why;

  friend bool operator==(const ContainerTransition&, const ContainerTransition&) = default;
};

struct Transition {
  std::vector<std::string> faults;              // of the change as a whole, one sentence each
  std::vector<std::string> notes;               // what stays as it is until pods are created again
  std::vector<ContainerTransition> containers;  // by key
  CpuSet shared_before;                         // the shared pool; empty: alignd sets no CPUs
  CpuSet shared_after;
  NodeState next;  // the state that was given, if the change is refused

  // Whether no container is refused, and there is no fault.
  bool IsAdmitted() const;
  // Whether a container has to move first (cpu_moves.h).
  bool HasMoves() const;
};

// Plans the change from the configuration of `before` to that of `after`, on the same machine, with
// what `state` says of the running containers. Changeable are the policies, their options, the
// scope, and all reservations of CPUs and memory.
//
// A container stays if its CPUs do not become reserved, its memory does not either, and, if the
// topology manager's settings change, the new ones would admit it where it is, as the kubelet
// decides about running pods when it restarts. Otherwise it is refused, or moves in the plan, with
// MayMove::kIfNeeded: containers with more exclusive CPUs are placed first, then by pod UID and
// name. With topology scope pod, the containers of a pod are placed together. They are placed only
// on CPUs that no other container is assigned, before or after the change, and that are not
// reserved before it. Memory and devices never move: a container with assigned memory gets no CPUs
// on a NUMA node on which it has neither memory nor CPUs. A container whose CPUs are also those of
// another one of its pod (an ended init container) does not move, nor does one to CPUs that another
// one of its pod leaves. Withheld CPUs stay withheld: no container is placed on them, and a change
// that reserves one is refused. When the moves are made, the plan without moves leads to the same
// state. If one container cannot be satisfied, the whole change is refused.
//
// Differs: the kubelet has no such change: it does not start with another policy until its state
// files are removed, which needs a drained node.
Transition PlanTransition(const Node& before, const Node& after, const NodeState& state,
                          MayMove may_move);

}  // namespace alignd::admission
