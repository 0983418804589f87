// Which policies pods may choose by annotation.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd {

enum class PodPolicy {
  kNumaTopologyPolicy,  // numaTopologyPolicy of numa-topology-spec
  kCpuBindPolicy,       // requiredCPUBindPolicy and preferredCPUBindPolicy of resource-spec
  kCpuExclusivePolicy,  // preferredCPUExclusivePolicy of resource-spec
  kResourceStatus,      // resource-status
  kSharedNumaNode,      // shared-cpus
};

// "numaTopologyPolicy", "cpuBindPolicy", "cpuExclusivePolicy", "resourceStatus", "sharedNUMANode".
std::string_view ToString(PodPolicy policy);

// The value of --pod-policies: "off", or names with commas between them.
// Errors: kInvalidArgument with the name that is not known and the known ones.
Result<std::set<PodPolicy>> ParsePodPolicies(std::string_view text);

// The same text; "off" for none.
std::string ToText(const std::set<PodPolicy>& policies);

}  // namespace alignd
