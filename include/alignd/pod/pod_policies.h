// The policies that a pod's author asks for by annotation, by Koordinator's names and values.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace alignd {

// Its value: {"numaTopologyPolicy": "SingleNUMANode"}.
// Source: koordinator apis/extension/numa_aware.go, NUMATopologySpec.
inline constexpr std::string_view kNumaTopologyAnnotation =
    "scheduling.koordinator.sh/numa-topology-spec";

enum class NumaTopologyPolicy { kBestEffort, kRestricted, kSingleNumaNode };

// "BestEffort", "Restricted", "SingleNUMANode".
std::string_view ToString(NumaTopologyPolicy policy);

// What the annotations of one pod say. Whether a node follows them is the node's to decide.
struct PodPolicies {
  std::optional<NumaTopologyPolicy> numa_topology = {};  // nullopt: that of the node
  // Why numa-topology-spec cannot be followed: the annotation, the value, and what is allowed.
  // Empty: it can, or the pod has none.
  std::string fault = {};
  // Names of annotations that no node follows (NoteUnsupported).
  std::set<std::string> unsupported = {};

  friend bool operator==(const PodPolicies&, const PodPolicies&) = default;
};

// Reads one annotation of a pod. Annotations of other names are ignored.
void ReadPodPolicies(std::string_view annotation, std::string_view value, PodPolicies& policies);

}  // namespace alignd
