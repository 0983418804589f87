// The resize of a running container's exclusive CPUs in place. `Resize` decides, as one pure
// function: the next state is part of the result.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::admission {

struct ResizeDecision {
  std::optional<Refusal> refusal;  // nullopt: resized, or it had as many exclusive CPUs already
  CpuSet before;
  CpuSet after;    // as `before` after a refusal
  NodeState next;  // the state that was given, after a refusal

  bool admitted() const { return !refusal.has_value(); }
};

// Gives the container `count` exclusive CPUs: more contain those that it has, fewer contain the
// original ones (CpuState::originals). It stays on the NUMA nodes on which it is, if they have
// enough free CPUs; else the topology policy decides about the further nodes, together with the
// devices and the memory that the container has. The policy is that of the pod, if it has one of
// its own (own_policy.h).
// 0: it goes to the shared pool, and keeps no CPUs. A container of the shared pool gets its CPUs as
// at admission, beside the devices and the memory that it has. `key` must be one that can have
// exclusive CPUs: a container of a Guaranteed pod that does not stay on one NUMA node.
// `claimed`: the devices of the claims of its pod. With topology scope container, it is not known
// which of them are the container's: CPUs are added on NUMA nodes that are right in either case.
// Refusals: ResizeRefused, with what is free, and what would help.
// Source: KEP-5554 (planned for Kubernetes 1.38). Differs: see docs/differences.md.
ResizeDecision Resize(const Node& node, const NodeState& state, const ContainerKey& key,
                      int64_t count, const std::vector<ClaimedDevice>& claimed = {});

}  // namespace alignd::admission
