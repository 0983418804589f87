// What asks for shared CPUs in place of exclusive ones: the annotation prefer-shared-cpus of
// nri-plugins and cri-resource-manager, and Koordinator's label for the QoS of a pod.
#pragma once

#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "alignd/pod/scoped_annotations.h"

namespace alignd {

// The label's values are LSE and LSR (exclusive CPUs), LS and BE (shared ones).
// Source: koordinator apis/extension/qos.go, QoSClass.
inline constexpr std::string_view kQosClassLabel = "koordinator.sh/qosClass";

// Source: nri-plugins cmd/plugins/topology-aware/policy/pod-preferences.go, sharedCPUsPreference.
inline constexpr std::string_view kPreferShared = "prefer-shared-cpus";

struct CpuSharing {
  ScopedAnnotations annotations = {};  // of kPreferShared
  std::string qos_class = {};          // the label's value; empty: none
  std::string label_fault = {};        // as that of the annotations
  // Not asked for: containers that have exclusive CPUs, and keep them.
  std::set<std::string, std::less<>> keeping = {};

  friend bool operator==(const CpuSharing&, const CpuSharing&) = default;
};

// Reads one label of a pod. Other labels are ignored.
// Differs: koordinator takes other values as none.
void ReadSharingLabel(std::string_view label, std::string_view value, CpuSharing& sharing);

// Reads one annotation of a pod. Returns false if it is another one.
inline bool ReadSharingAnnotation(std::string_view annotation, std::string_view value,
                                  CpuSharing& sharing) {
  return ReadScopedAnnotation(kPreferShared, annotation, value, sharing.annotations);
}

// What the annotations say of the container.
inline std::optional<bool> PrefersShared(const CpuSharing& sharing, std::string_view container) {
  return ValueFor(container, kPreferShared, sharing.annotations);
}

// Whether the label asks for shared CPUs, or for exclusive ones. nullopt: for neither.
std::optional<bool> LabelShares(const CpuSharing& sharing);

}  // namespace alignd
