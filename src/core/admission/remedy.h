// What would help a refused pod. Private to the core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// A problem of the devices that the pod needs and that no other pod can solve: their plugin is
// missing, or too few are healthy. Empty: none.
std::string ProblemOfDevices(const NodeState& state, const Pod& pod);

// Of a pod that does not fit on the empty node: why its policy never admits the pod's devices,
// although the node has enough: they are on different NUMA nodes. Empty: it is not so.
std::string DescribeSpreadDevices(const Node& node, const NodeState& state, const Pod& pod);

// The same node with another topologyManagerPolicy; nullopt: its options do not allow that.
std::optional<Node> WithPolicy(const Node& node, TopologyManagerPolicy policy);

// Whether the node's policy refuses pods for their alignment.
bool MayRefuseAlignment(const Node& node);

// The policies that refuse fewer pods than the node's own one, the strictest first; the last one is
// best-effort. Empty if the node's policy refuses none.
std::vector<TopologyManagerPolicy> WeakerPolicies(const Node& node);

// The pod without the topology policy that it asks for.
Pod WithoutTopologyPolicy(Pod pod);

// All devices, nothing assigned.
NodeState EmptyState(const Node& node, const NodeState& state);

// Whether the pod would be admitted. Preferences of plugins are not asked.
bool Fits(const Node& node, const NodeState& state, const Pod& pod);

// What would help, in one line.
std::string WhatWouldHelp(const Node& node, const NodeState& state, const Pod& pod);

}  // namespace alignd::admission
