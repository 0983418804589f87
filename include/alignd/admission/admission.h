// The decision about a pod: start reading here. `Admit` collects hints, merges them and allocates,
// in the kubelet's order, as one pure function. The next state is part of the result, so a refusal
// or an error has nothing to undo.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

// How one container was decided.
struct ContainerDecision {
  std::string container;
  // The hints of every resource, of all managers. With pod scope, those of the pod.
  topologymanager::HintsByResource hints;
  // The merged hint; nullopt with topology policy none.
  std::optional<topologymanager::TopologyHint> affinity;
  // False if the memory manager's own search ended at its limit (memorymanager::Placement).
  bool memory_exact = true;

  friend bool operator==(const ContainerDecision&, const ContainerDecision&) = default;
};

// What refused a pod.
enum class RefusedBy { kTopology, kDevices, kCpus, kMemory };

// Where a decision ended with a refusal.
struct RefusalPoint {
  std::string container;  // with pod scope and kTopology: the first one of the pod
  RefusedBy by = RefusedBy::kTopology;

  friend bool operator==(const RefusalPoint&, const RefusalPoint&) = default;
};

struct Admission {
  std::optional<Refusal> refusal;  // nullopt: admitted
  // nullopt: admitted, or refused before a manager was asked.
  std::optional<RefusalPoint> refused_at;
  // Of the containers that were decided, in the pod's order.
  std::vector<ContainerDecision> decisions;
  // The state after the decision. A refused pod has nothing in it. But the kubelet allocates and
  // releases, which can move reserved memory between the nodes of a group. `next` is then the
  // kubelet's state, for comparisons; other callers keep the state before.
  NodeState next;
  std::map<std::string, Assignment> assignments;  // by container name; empty if refused

  bool admitted() const { return !refusal.has_value(); }
};

// Decides about every container of the pod, or refuses the whole pod. A container keeps what it is
// already assigned. CPUs and memory also align with the devices that DRA has allocated before
// (ClaimedDevice), which is no part of the kubelet's decision. With topologyManagerPolicy
// best-attainable, a hint that is not preferred takes one more decision, on the empty node.
// Pure and deterministic.
// Source: kubelet pkg/kubelet/cm/topologymanager/scope_container.go, scope_pod.go, scope_none.go.
Admission Admit(const Node& node, const NodeState& state, const Pod& pod,
                const devicemanager::PreferredAllocationFn& preferred);

struct StartedPod {
  // By container and resource: what is allocated at the start.
  std::map<std::string, std::map<std::string, devicemanager::DeviceAllocation>> devices;
  // The container that cannot start for want of devices, and why. It and those after it wait.
  std::optional<std::pair<std::string, Refusal>> waits;
};

// The containers of the pod start, one after another. The memory of ended init containers is
// released as the kubelet does it. A pod that has CPUs and memory as a whole
// (PodLevelManagers::kPod) is admitted without devices; its containers are allocated them here.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, GetDeviceRunContainerOptions.
StartedPod StartPod(const Node& node, const Pod& pod,
                    const devicemanager::PreferredAllocationFn& preferred, NodeState& state);

}  // namespace alignd::admission
