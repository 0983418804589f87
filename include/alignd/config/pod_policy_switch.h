// Which policies pods may choose by annotation.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod_policies.h"

namespace alignd {

enum class PodPolicy {
  kNumaTopologyPolicy,  // numaTopologyPolicy of numa-topology-spec
  kCpuBindPolicy,       // requiredCPUBindPolicy and preferredCPUBindPolicy of resource-spec
  kCpuExclusivePolicy,  // preferredCPUExclusivePolicy of resource-spec
  kResourceStatus,      // resource-status
  kQosClass,            // the label koordinator.sh/qosClass
  kPreferSharedCpus,    // prefer-shared-cpus of nri-plugins and cri-resource-manager
  kPreferIsolatedCpus,  // prefer-isolated-cpus of the same
  kSharedNumaNode,      // shared-cpus
};

// "numaTopologyPolicy", "cpuBindPolicy", "cpuExclusivePolicy", "resourceStatus", "qosClass",
// "prefer-shared-cpus", "prefer-isolated-cpus", "sharedNUMANode".
std::string_view ToString(PodPolicy policy);

// The value of --pod-policies: "off", or names with commas between them.
// Errors: kInvalidArgument with the name that is not known and the known ones.
Result<std::set<PodPolicy>> ParsePodPolicies(std::string_view text);

// The same text; "off" for none.
std::string ToText(const std::set<PodPolicy>& policies);

// What the pods of some namespaces may choose, in place of the list for all namespaces, and what
// they have by default.
struct NamespacePolicies {
  std::vector<std::string> namespaces;  // names; a `*` at the end stands for any text, also none
  std::set<PodPolicy> pod_policies;
  PlacementPolicies defaults = {};

  // Whether one of the names stands for the namespace.
  bool Has(std::string_view name_space) const;

  friend bool operator==(const NamespacePolicies&, const NamespacePolicies&) = default;
};

}  // namespace alignd
