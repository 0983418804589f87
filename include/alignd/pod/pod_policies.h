// The policies that a pod's author asks for by annotation, by Koordinator's names and values where
// it has them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/quantity.h"
#include "alignd/pod/cpu_sharing.h"
#include "alignd/pod/scoped_annotations.h"

namespace alignd {

// Its value: {"numaTopologyPolicy": "SingleNUMANode"}.
// Source: koordinator apis/extension/numa_aware.go, NUMATopologySpec.
inline constexpr std::string_view kNumaTopologyAnnotation =
    "scheduling.koordinator.sh/numa-topology-spec";

// Its value: {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"}.
// Source: koordinator apis/extension/numa_aware.go, ResourceSpec.
inline constexpr std::string_view kResourceSpecAnnotation =
    "scheduling.koordinator.sh/resource-spec";

// What a scheduler has decided: {"cpuset": "4-7", "numaNodeResources": [{"node": 0, ...}]}.
// Source: koordinator apis/extension/numa_aware.go, ResourceStatus.
inline constexpr std::string_view kResourceStatusAnnotation =
    "scheduling.koordinator.sh/resource-status";

// Not Koordinator's. Its value: single-numa-node, or nothing.
inline constexpr std::string_view kSharedCpusAnnotation = "alignd.io/shared-cpus";

// Whether the exclusive CPUs of a container come from those that the kernel isolates.
// Source: nri-plugins cmd/plugins/topology-aware/policy/pod-preferences.go, isolatedCPUsPreference.
inline constexpr std::string_view kPreferIsolated = "prefer-isolated-cpus";

enum class NumaTopologyPolicy { kBestEffort, kRestricted, kSingleNumaNode };

// "BestEffort", "Restricted", "SingleNUMANode".
std::string_view ToString(NumaTopologyPolicy policy);

// How a container's CPUs lie on cores.
enum class CpuBindPolicy {
  kFullPcpus,      // whole cores
  kSpreadByPcpus,  // one CPU of each core
};

// "FullPCPUs", "SpreadByPCPUs".
std::string_view ToString(CpuBindPolicy policy);

// What a pod's CPUs stay away from, as far as possible: CPUs of other pods with the same policy.
enum class CpuExclusivePolicy {
  kPcpuLevel,      // their cores
  kNumaNodeLevel,  // their NUMA nodes
};

// "PCPULevel", "NUMANodeLevel".
std::string_view ToString(CpuExclusivePolicy policy);

// How a pod is placed: what it asks for by annotation, or what the pods of its namespace have by
// default (NamespacePolicies). Members are named after those of PodPolicies.
struct PlacementPolicies {
  std::optional<NumaTopologyPolicy> numa_topology = {};  // nullopt: that of the node
  bool keeps_numa_apart = false;
  std::optional<CpuBindPolicy> required_bind = {};
  std::optional<CpuBindPolicy> preferred_bind = {};
  std::optional<CpuExclusivePolicy> exclusive = {};
  bool prefers_shared_cpus = false;  // containers about which the pod says nothing
  bool shared_on_one_node = false;

  friend bool operator==(const PlacementPolicies&, const PlacementPolicies&) = default;
};

// Those that are set, with their names and values in the annotations: {"numaTopologyPolicy",
// "SingleNUMANode"}.
std::vector<std::pair<std::string, std::string>> ToTexts(const PlacementPolicies& policies);

// By NUMA node id: resource name -> amount.
using NumaNodeResources = std::map<int64_t, std::map<std::string, Quantity, std::less<>>>;

// What the annotations of one pod say. Whether a node follows them is the node's to decide.
struct PodPolicies {
  // The namespace of a pod that runs, if it asks for something. Of a Pod, that is its name_space.
  std::string name_space = {};
  std::optional<NumaTopologyPolicy> numa_topology = {};  // nullopt: that of the node
  // singleNUMANodeExclusive Required: pods on one NUMA node and pods on several are not on the same
  // one.
  bool keeps_numa_apart = false;
  // Why numa-topology-spec cannot be followed: the annotation, the value, and what is allowed.
  // Empty: it can, or the pod has none.
  std::string fault = {};
  // Names of annotations that no node follows (NoteUnsupported).
  std::set<std::string> unsupported = {};

  // resource-spec. "Default" is kFullPcpus, as in Koordinator's own configuration.
  std::optional<CpuBindPolicy> required_bind = {};
  std::optional<CpuBindPolicy> preferred_bind = {};  // of no effect beside `required_bind`
  std::optional<CpuExclusivePolicy> exclusive = {};
  std::string spec_fault = {};  // as `fault`, of resource-spec

  // resource-status.
  CpuSet cpuset = {};  // empty: no CPUs are named
  NumaNodeResources numa_resources = {};
  std::string status_fault = {};  // as `fault`, of resource-status

  CpuSharing sharing = {};
  ScopedAnnotations isolation = {};  // of kPreferIsolated

  // shared-cpus: whether containers of the shared pool stay on one NUMA node.
  bool shared_on_one_node = false;
  std::string shared_fault = {};  // as `fault`, of shared-cpus

  friend bool operator==(const PodPolicies&, const PodPolicies&) = default;
};

// Whether they ask for nothing.
bool AreEmpty(const PodPolicies& policies);

// Reads one annotation of a pod. Annotations of other names are ignored.
void ReadPodPolicies(std::string_view annotation, std::string_view value, PodPolicies& policies);

}  // namespace alignd
