// What a scheduler has decided for a pod (annotation resource-status, PodPolicies), where the
// node's configuration lets schedulers decide. Private to the core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {

// Whether the pod's annotation is followed: it decides something, and the node allows it.
bool IsDecided(const Node& node, const Pod& pod);

// The pod without what a scheduler has decided.
Pod WithoutDecision(Pod pod);

// The same if the pod's containers have their assignments: they keep them, whatever the annotation
// says. Otherwise the pod as it is.
Pod WithOpenDecision(const Node& node, const NodeState& state, Pod pod);

// Why the decision cannot be followed here, or not now: both sides. nullopt: no reason.
std::optional<Objection> ObjectionToStatus(const Node& node, const NodeState& state,
                                           const Pod& pod);

// Restricts the policy to the decided CPUs. If numaNodeResources names whole numbers of CPUs, as
// many as the pod requests, these are chosen on each NUMA node as the policy would.
// There must be no objection, and the decision must be open.
void RestrictToDecided(const Node& node, const NodeState& state, const Pod& pod,
                       cpumanager::StaticPolicy& policy);

// The NUMA nodes of numaNodeResources as a place with which the pod's CPUs, memory and devices are
// aligned: one preferred hint. No answer if they have no CPUs, or if no other provider has
// answered.
topologymanager::HintsByResource DecidedHints(
    const Node& node, const Pod& pod, const std::vector<topologymanager::HintsByResource>& others);

// Those of the hints that lie within the NUMA nodes.
topologymanager::Hints HintsWithin(const topologymanager::Hints& hints, NumaMask nodes);

// The NUMA nodes of numaNodeResources; nullopt: it names none.
std::optional<NumaMask> DecidedNodes(const Node& node, const Pod& pod);

// Those of them that have an amount of memory or huge pages; all of them if none has.
std::optional<NumaMask> DecidedMemoryNodes(const Node& node, const Pod& pod);

// What memory is assigned on other NUMA nodes than these. nullopt: none.
std::optional<Objection> ObjectionToResult(const Node& node, const Pod& pod,
                                           const Admission& admission);

void DescribeStatus(const Node& node, const Pod& pod, std::vector<std::string>& texts);

}  // namespace alignd::admission
