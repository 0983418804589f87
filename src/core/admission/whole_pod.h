// The decision about a pod that is assigned CPUs and memory as a whole (PodLevelManagers::kPod).
// Private to the module.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

// The answers of all hint providers about the whole pod, in the kubelet's order. `cpu`: the CPU
// manager's policy for the pod; null: none.
std::vector<topologymanager::HintsByResource> WholePodAnswers(const Node& node,
                                                              const cpumanager::StaticPolicy* cpu,
                                                              const NodeState& state,
                                                              const Pod& pod);

struct WholePodPlacement {
  std::optional<Refusal> refusal;
  std::string container = {};  // at which it was refused
  RefusedBy by = RefusedBy::kCpus;
  bool memory_exact = true;
};

// Allocates CPUs and memory to the pod and its containers. `pod` has containers. Its devices are
// allocated when its containers start (StartPod), or now if the node does so. `memory_affinity`:
// where its memory is; it differs from `affinity` if a scheduler has decided so. After a refusal,
// discard `state`.
// Source: kubelet pkg/kubelet/cm/topologymanager/scope.go, allocatePodAlignedResources.
WholePodPlacement AllocateWholePod(const Node& node, const cpumanager::StaticPolicy* cpu,
                                   const Pod& pod, const topologymanager::TopologyHint& affinity,
                                   const topologymanager::TopologyHint& memory_affinity,
                                   const devicemanager::PreferredAllocationFn& preferred,
                                   NodeState& state);

// The refusal by the topology policy, for every pod.
Refusal AffinityRefusal(const Pod& pod);

}  // namespace alignd::admission
