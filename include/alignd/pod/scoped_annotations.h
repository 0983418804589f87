// Annotations of nri-plugins and cri-resource-manager that are on or off for single containers:
// KEY.resource-policy.nri.io or KEY.cri-resource-manager.intel.com, followed by a scope: nothing or
// /pod for all containers, /container.NAME for one.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace alignd {

// Those of one key.
struct ScopedAnnotations {
  std::map<std::string, bool, std::less<>> values;  // by their whole names
  // Why they cannot be followed: the name, the value and what is allowed. Empty: they can, or the
  // pod has none.
  std::string fault = {};

  friend bool operator==(const ScopedAnnotations&, const ScopedAnnotations&) = default;
};

// Reads one annotation of a pod. Returns false if it is not one of the key.
// Differs: other values than Go's booleans, and other scopes, are faults. nri-plugins ignores them.
bool ReadScopedAnnotation(std::string_view key, std::string_view annotation, std::string_view value,
                          ScopedAnnotations& read);

// What they say of the container: that of the container before those of the pod. Those of
// nri-plugins count if there are any, as there each program reads its own.
// Source: nri-plugins pkg/resmgr/cache/pod.go, GetEffectiveAnnotation.
std::optional<bool> ValueFor(std::string_view container, std::string_view key,
                             const ScopedAnnotations& read);

// The containers that they name.
std::vector<std::string> ContainersNamed(const ScopedAnnotations& read);

}  // namespace alignd
