// The NodeResourceTopology object of a node (topology.node.k8s.io/v1alpha2): what topology-aware
// schedulers know of its NUMA nodes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/noderesourcetopology/pod_fingerprint.h"

namespace alignd::noderesourcetopology {

inline constexpr char kApiVersion[] = "topology.node.k8s.io/v1alpha2";
inline constexpr char kKind[] = "NodeResourceTopology";

// Names of attributes that readers look for.
// Source: scheduler-plugins pkg/noderesourcetopology/nodeconfig/topologymanager.go.
inline constexpr char kPolicyAttribute[] = "topologyManagerPolicy";
inline constexpr char kScopeAttribute[] = "topologyManagerScope";

// The object in JSON, on one line; the same state gives the same bytes. `name`: of the Node object.
// `pods`: the pods that run on the node, for their fingerprint; nullopt: they are not known, and
// the object has no fingerprint.
std::string ObjectJson(const std::string& name, const admission::Node& node,
                       const admission::NodeState& state,
                       const std::optional<std::vector<PodName>>& pods);

// "node-0": the name of a zone. Source: resource-topology-exporter
// pkg/resourcemonitor/resourcemonitor.go.
std::string ZoneName(int numa_id);

}  // namespace alignd::noderesourcetopology
