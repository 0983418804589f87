// The NodeResourceTopology object of a node (topology.node.k8s.io/v1alpha2): what topology-aware
// schedulers know of its NUMA nodes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/noderesourcetopology/koordinator.h"
#include "alignd/noderesourcetopology/pod_fingerprint.h"

namespace alignd::noderesourcetopology {

inline constexpr char kApiVersion[] = "topology.node.k8s.io/v1alpha2";
inline constexpr char kKind[] = "NodeResourceTopology";

// Names of attributes that readers look for.
// Source: scheduler-plugins pkg/noderesourcetopology/nodeconfig/topologymanager.go.
inline constexpr char kPolicyAttribute[] = "topologyManagerPolicy";
inline constexpr char kScopeAttribute[] = "topologyManagerScope";

inline constexpr char kMaxNodesAttribute[] = "topologyManagerMaxNUMANodes";
inline constexpr char kFingerprintAttribute[] = "nodeTopologyPodsFingerprint";
inline constexpr char kFingerprintMethodAttribute[] = "nodeTopologyPodsFingerprintMethod";
inline constexpr char kFingerprintAnnotation[] = "topology.node.k8s.io/fingerprint";

// Names of alignd's own attributes: docs/topology-objects.md.
inline constexpr char kCpuPolicyAttribute[] = "alignd.io/cpuManagerPolicy";
inline constexpr char kMemoryPolicyAttribute[] = "alignd.io/memoryManagerPolicy";
inline constexpr char kMemoryGroupsAttribute[] = "alignd.io/memoryGroups";
inline constexpr char kMemoryGroupAttribute[] = "alignd.io/memoryGroup";
inline constexpr char kUidFingerprintAttribute[] = "alignd.io/podUIDsFingerprint";
inline constexpr char kPolicyOptionsAttribute[] = "alignd.io/policyOptions";
inline constexpr char kDeviceGroupsAttribute[] = "alignd.io/deviceGroups";
inline constexpr char kCpusPerCoreAttribute[] = "alignd.io/cpusPerCore";
inline constexpr char kFreeCoreCpusAttribute[] = "alignd.io/freeCoreCpus";
inline constexpr char kSharedRequestsAttribute[] = "alignd.io/sharedCpuRequests";
inline constexpr char kBackingCpusAttribute[] = "alignd.io/backingCpus";
inline constexpr char kBackingCoreCpusAttribute[] = "alignd.io/backingCoreCpus";
// Of an object with Koordinator's annotations: that they are alignd's, and, of a zone, how many of
// its allocatable CPUs are reserved.
inline constexpr char kKoordinatorAttribute[] = "alignd.io/koordinatorAnnotations";
inline constexpr char kReservedCpusAttribute[] = "alignd.io/reservedCpus";

// The object in JSON, on one line; the same state gives the same bytes. `name`: of the Node object.
// `pods`: the pods that run on the node, for their fingerprint; nullopt: they are not known, and
// the object has no fingerprint. `koordinator`: of KoordinatorAnnotations; empty: without. With
// them, reserved CPUs are allocatable: Koordinator's scheduler subtracts them.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/topology_options.go,
// NewTopologyOptions.
std::string ObjectJson(const std::string& name, const admission::Node& node,
                       const admission::NodeState& state,
                       const std::optional<std::vector<PodIdentity>>& pods,
                       const Annotations& koordinator = {});

// "node-0": the name of a zone. Source: resource-topology-exporter
// pkg/resourcemonitor/resourcemonitor.go.
std::string ZoneName(int64_t numa_id);

}  // namespace alignd::noderesourcetopology
