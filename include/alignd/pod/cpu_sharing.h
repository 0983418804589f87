// What asks for shared CPUs in place of exclusive ones: the annotation prefer-shared-cpus of
// nri-plugins and cri-resource-manager, and Koordinator's label for the QoS of a pod.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace alignd {

// The label's values are LSE and LSR (exclusive CPUs), LS and BE (shared ones).
// Source: koordinator apis/extension/qos.go, QoSClass.
inline constexpr std::string_view kQosClassLabel = "koordinator.sh/qosClass";

// Followed by .resource-policy.nri.io or .cri-resource-manager.intel.com, and by a scope: nothing
// or /pod for all containers, /container.NAME for one.
// Source: nri-plugins cmd/plugins/topology-aware/policy/pod-preferences.go, sharedCPUsPreference.
inline constexpr std::string_view kPreferShared = "prefer-shared-cpus";

struct CpuSharing {
  std::map<std::string, bool, std::less<>> annotations;  // by their whole names
  std::string qos_class = {};                            // the label's value; empty: none
  // Why the annotations, or the label, cannot be followed: the name, the value and what is allowed.
  // Empty: they can, or the pod has none.
  std::string fault = {};
  std::string label_fault = {};
  // Not asked for: containers that have exclusive CPUs, and keep them.
  std::set<std::string, std::less<>> keeping = {};

  friend bool operator==(const CpuSharing&, const CpuSharing&) = default;
};

// Reads one annotation of a pod. Returns false if it is another one.
// Differs: other values than Go's booleans, and other scopes, are faults. nri-plugins ignores them.
bool ReadSharingAnnotation(std::string_view annotation, std::string_view value,
                           CpuSharing& sharing);

// Reads one label of a pod. Other labels are ignored.
// Differs: koordinator takes other values as none.
void ReadSharingLabel(std::string_view label, std::string_view value, CpuSharing& sharing);

// What the annotations say of the container: that of the container before those of the pod. Those
// of nri-plugins count if there are any, as there each program reads its own.
// Source: nri-plugins pkg/resmgr/cache/pod.go, GetEffectiveAnnotation.
std::optional<bool> PrefersShared(const CpuSharing& sharing, std::string_view container);

// Whether the label asks for shared CPUs, or for exclusive ones. nullopt: for neither.
std::optional<bool> LabelShares(const CpuSharing& sharing);

// The containers that annotations name.
std::vector<std::string> ContainersNamed(const CpuSharing& sharing);

}  // namespace alignd
