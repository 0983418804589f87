// On which of several NUMA nodes a pod is placed: apart from other pods, where its annotation
// numa-topology-spec asks for it (singleNUMANodeExclusive), and by the node's numaAllocateStrategy.
// Private to the core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "core/admission/own_cpus.h"

namespace alignd::admission {

// Whether the pod asks to be kept apart, and a topology policy applies to it.
bool IsKeptApart(const Node& node, const Pod& pod);

// The CPUs of NUMA nodes that the pod stays off, if it is on one NUMA node, and if it is on
// several.
std::vector<CpuSet> CpusToStayOff(const Node& node, const NodeState& state, const Pod& pod);

// Why the pod may not be where it is decided: it would be on one NUMA node on which a pod of
// several has CPUs, or on several of which one has only pods of one. A pod that has its assignment
// keeps it. nullopt: no reason, or it is not to be kept apart.
// Source: koordinator pkg/scheduler/frameworkext/topologymanager/policy.go, checkExclusivePolicy;
// pkg/scheduler/plugins/nodenumaresource/node_allocation.go, NUMANodeSharedStatus.
std::optional<Objection> ObjectionToNuma(const Node& node, const NodeState& before, const Pod& pod,
                                         const Admission& admission);

// With policy best-effort it is only preferred.
bool MustKeepApart(const Node& node, const Pod& pod);

// The CPUs of each NUMA node, in the order in which the strategy takes them. Empty: the node has no
// strategy.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/cpu_accumulator.go, freeCoresInNode.
std::vector<CpuSet> PlacesByStrategy(const Node& node, const NodeState& state);

void DescribeNuma(const Node& node, const Pod& pod, std::vector<std::string>& texts);

}  // namespace alignd::admission
