// The managers at one table: start here. `Admit` decides about a pod: hints, merge, allocate, in
// the kubelet's order, as one pure function. The next state is part of the answer, so a refusal or
// a failure has nothing to undo.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/grant.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

// How the answer for one container came about.
struct ContainerDecision {
  std::string container;
  // Every resource's hints, those of all managers together. In pod scope the pod's.
  topologymanager::HintsByResource hints;
  // The merged hint; nullopt with topology policy none.
  std::optional<topologymanager::TopologyHint> affinity;
  // False if the memory manager's own search, beyond the merged hint, gave up
  // (memorymanager::Placement).
  bool memory_exact = true;

  friend bool operator==(const ContainerDecision&, const ContainerDecision&) = default;
};

struct Admission {
  std::optional<Refusal> refusal;  // nullopt: admitted
  // Of the containers that were looked at, in the pod's order.
  std::vector<ContainerDecision> decisions;
  // The state after. Of a refused pod nothing is in it; but where the kubelet, which allocates and
  // gives back, would have left the booked memory of a group on other nodes of that group, so it is
  // here, for texts that compare. Who does not care keeps the state before.
  NodeState next;
  std::map<std::string, Assignment> assignments;  // by container name; empty if refused

  bool admitted() const { return !refusal.has_value(); }
};

// Decides about every container of the pod, or refuses the whole pod. A container that already has
// something keeps it. Pure and deterministic.
// Source: kubelet pkg/kubelet/cm/topologymanager/scope_container.go, scope_pod.go, scope_none.go.
Admission Admit(const Node& node, const NodeState& state, const Pod& pod,
                const devicemanager::PreferredAllocationFn& preferred);

// The containers of the pod start, one after another: what ended init containers held is given back
// as the kubelet gives it back.
void StartPod(const Node& node, const Pod& pod, NodeState& state);

}  // namespace alignd::admission
