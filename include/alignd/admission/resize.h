// The resize of a running container's exclusive CPUs in place, and other requests of a container
// that is created again. Both are decided by one pure function each: the next state is part of the
// result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::admission {

// The devices of ResourceClaims beside which CPUs are added.
struct ResizeClaims {
  std::vector<ClaimedDevice> devices = {};
  // With topology scope container: whether they are those of the container. Otherwise they are
  // those of its pod, and it is not known which of them are the container's.
  bool are_its_own = false;
};

// Those of the container if `pod` has it: then these are known. Otherwise those of the pod.
ResizeClaims ClaimsOf(const Pod& pod, const std::string& container);

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
// `claimed`: if it is not known which of them are the container's, CPUs are added on NUMA nodes
// that are right in either case. Refusals: ResizeRefused, with what is free, and what would help.
// Source: KEP-5554 (planned for Kubernetes 1.38). Differs: see docs/differences.md.
ResizeDecision Resize(const Node& node, const NodeState& state, const ContainerKey& key,
                      int64_t count, const ResizeClaims& claimed = {});

struct RenewedShare {
  std::string lacks;  // what the NUMA node has too little of; empty: it has enough
  NodeState next;     // the state that was given, if it lacks something
};

// A container of the shared pool that stays on one NUMA node is created again, and requests other
// CPUs or other memory than before (CpuState::shares). It keeps its NUMA node if that has them, in
// place of what it had. Its memory stays as it is if it is an init container, whose memory others
// have taken over, or if `keeps_memory`. `container` is one of the pod, which is as the node
// manages it (OnThisNode), and asks for one NUMA node.
RenewedShare RenewShare(const Node& node, const NodeState& state, const Pod& pod,
                        const Container& container, bool keeps_memory);

}  // namespace alignd::admission
