// The KubeletConfiguration fields that alignd uses, with the kubelet's spellings, defaults and
// validation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/quantity.h"
#include "alignd/base/result.h"
#include "alignd/config/pod_policy_switch.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/shared_pool_handlers.h"

namespace alignd {

enum class CpuManagerPolicy { kNone, kStatic };
enum class TopologyManagerPolicy {
  kNone,
  kBestEffort,
  kBestAttainable,  // not the kubelet's: refuses only what the empty node would align better
  kRestricted,
  kSingleNumaNode,
};
enum class TopologyManagerScope { kContainer, kPod };
enum class MemoryManagerPolicy { kNone, kStatic };

// Which NUMA node a pod gets that several would suit equally: that with the fewest or the most free
// CPUs. kNone: as the kubelet, that with the lowest number. kAllNodes: the CPUs of a container are
// distributed over as many NUMA nodes as possible.
// Source: koordinator apis/extension/numa_aware.go, NUMAAllocateStrategy.
enum class NumaAllocateStrategy { kNone, kFullestNode, kEmptiestNode, kAllNodes };

// Which kubelet's rules and forms of the state files apply where releases differ. 1.20: its merge
// of hints. 1.36: as 1.37, but state files without `data`.
enum class Compatibility { k1_20, k1_36, k1_37 };

// One entry of reservedMemory.
struct MemoryReservation {
  int numa_node = 0;    // NUMA node id
  ResourceList limits;  // by memory type

  friend bool operator==(const MemoryReservation&, const MemoryReservation&) = default;
};

// A value. Fields are named after KubeletConfiguration (kubelet.config.k8s.io/v1beta1).
struct KubeletConfig {
  CpuManagerPolicy cpu_manager_policy = CpuManagerPolicy::kNone;
  std::map<std::string, std::string> cpu_manager_policy_options;  // as written; checked at start
  int64_t cpu_manager_reconcile_period_ms = 10'000;
  std::string reserved_system_cpus;  // CPU list; empty: none given
  ResourceList kube_reserved;
  ResourceList system_reserved;
  // evictionHard's memory.available as written ("100Mi" or "5%"); empty: no threshold.
  std::string eviction_hard_memory = "100Mi";

  TopologyManagerPolicy topology_manager_policy = TopologyManagerPolicy::kNone;
  TopologyManagerScope topology_manager_scope = TopologyManagerScope::kContainer;
  std::map<std::string, std::string> topology_manager_policy_options;

  MemoryManagerPolicy memory_manager_policy = MemoryManagerPolicy::kNone;
  std::vector<MemoryReservation> reserved_memory;

  // featureGates as written, only those that alignd follows. See PodLevelResourceManagersOn.
  std::map<std::string, bool> feature_gates;
  // Those of no kubelet that alignd knows. They change nothing. See UnknownFeatureGates.
  std::map<std::string, bool> unknown_feature_gates;

  // These are not fields of the kubelet.
  Compatibility compatibility = Compatibility::k1_37;
  std::set<PodPolicy> pod_policies;  // which policies pods may choose; none by default
  NumaAllocateStrategy numa_allocate_strategy = NumaAllocateStrategy::kNone;
  // As pod_policies, for the pods of some namespaces, with their defaults: of these entries, the
  // first that has it counts.
  std::vector<NamespacePolicies> namespace_policies;
  SharedPoolHandlers shared_pool_handlers = SharedPoolHandlers(DefaultSharedPoolHandlers());
  // Extended resources that no device plugin serves, such as licences: nothing is assigned of them.
  std::set<std::string> not_devices = {};
  // Whether annotations with resources may ask for extended resources.
  bool annotated_extended_resources = true;

  friend bool operator==(const KubeletConfig&, const KubeletConfig&) = default;
};

// Reads the JSON form of a KubeletConfiguration. Other fields of KubeletConfiguration are accepted
// and ignored, so that a node's own file can be used unchanged. A field that KubeletConfiguration
// does not have is refused. Policy options are only read here; code that knows the machine checks
// them.
// Errors: kInvalidArgument with the field's path, the value, and what is allowed.
// Source: kubelet pkg/kubelet/apis/config/v1beta1/defaults.go and config/validation/validation.go.
Result<KubeletConfig> ParseKubeletConfig(std::string_view json);

// The spellings of KubeletConfiguration.
std::string_view ToString(CpuManagerPolicy policy);       // none, static
std::string_view ToString(TopologyManagerPolicy policy);  // none, best-effort, ...
std::string_view ToString(TopologyManagerScope scope);    // container, pod
std::string_view ToString(MemoryManagerPolicy policy);    // None, Static
std::string_view ToString(Compatibility compatibility);   // 1.20, 1.36, 1.37
// "MostAllocated", "LeastAllocated", "DistributeEvenly", "".
std::string_view ToString(NumaAllocateStrategy strategy);

// Which policies the pods of a namespace may choose.
const std::set<PodPolicy>& PodPoliciesFor(const KubeletConfig& config, std::string_view name_space);

// The name of that list in messages: "podPolicies", or "podPolicies for namespace NAME".
std::string NameOfPodPolicies(const KubeletConfig& config, std::string_view name_space);

// What the pods of a namespace have by default.
const PlacementPolicies& DefaultPoliciesFor(const KubeletConfig& config,
                                            std::string_view name_space);

// Which policies the pods of any namespace may choose, or have by default.
std::set<PodPolicy> PodPoliciesAnywhere(const KubeletConfig& config);

// As --pod-policies=off: no pods may choose. They keep the defaults of their namespaces, except a
// singleNUMANodeExclusive that was only for pods with a topology policy that they chose.
void LetNoPodsChoose(KubeletConfig& config);

// Reads a boolean option as Go's strconv.ParseBool does (1 t T TRUE true True 0 f F FALSE ...).
std::optional<bool> ParseGoBool(std::string_view text);

// Whether the feature gate PodLevelResourceManagers is on. It is off by default in every release;
// AllAlpha turns it on in 1.36, where it is alpha, and AllBeta later. Its own entry comes first. It
// is off without the gate PodLevelResources, which is on by default, and in 1.20.
// Source: kubernetes pkg/features/kube_features.go; k8s.io/component-base/featuregate.
bool PodLevelResourceManagersOn(const KubeletConfig& config);

// What the node reserves of cpu, memory and every huge page type: kubeReserved +
// systemReserved + the hard eviction threshold. `reserved_cpu_count` is the number of CPUs in
// reservedSystemCPUs, which then replaces the cpu of both.
// Errors: kInvalidArgument if the threshold cannot be read.
// Source: kubelet pkg/kubelet/cm/node_container_manager_linux.go, GetNodeAllocatableReservation.
Result<ResourceList> NodeReservation(const KubeletConfig& config, uint64_t memory_capacity_bytes,
                                     int reserved_cpu_count);

}  // namespace alignd
