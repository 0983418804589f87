// The answers of all hint providers about a container or a pod. Private to the module.
#pragma once

#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

// In the kubelet's order: devices, CPUs, memory; then what the kubelet does not have: shared CPUs
// of one NUMA node, claimed devices, and what a scheduler has decided.
using Answers = std::vector<topologymanager::HintsByResource>;

// `cpu`: the CPU manager's policy for the pod; null: no CPUs are assigned. `pod` as from
// OnThisNode.
Answers ContainerAnswers(const Node& node, const cpumanager::StaticPolicy* cpu,
                         const NodeState& state, const Pod& pod, const Container& container);

// The same for all containers of the pod together.
Answers PodAnswers(const Node& node, const cpumanager::StaticPolicy* cpu, const NodeState& state,
                   const Pod& pod);

// The same for a pod that is assigned what it requests as a whole.
Answers AnswersForWholePod(const Node& node, const cpumanager::StaticPolicy* cpu,
                           const NodeState& state, const Pod& pod);

}  // namespace alignd::admission
