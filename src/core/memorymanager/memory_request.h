// Requested bytes by memory type. Private to the module.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::memorymanager {

using MemoryRequest = std::map<std::string, uint64_t>;  // bytes by memory type

// `memory` or `hugepages-...`.
bool IsMemoryType(std::string_view resource);

// The amount in bytes; nullopt if it is negative, not a whole number, or 10^18 or more.
// Differs: the kubelet decides by the spelling. It reads at most 18 digits exactly, so it refuses
// `1000000000000000000` and `1Ei`, but also `100Ti`, `0.5Gi` and `1000m`; `1E` it takes and refuses
// later, for want of memory. Here the value decides, and every whole number below 10^18 is taken.
// Source: apimachinery pkg/api/resource/quantity.go, ParseQuantity, AsInt64.
std::optional<uint64_t> WholeBytes(const Quantity& amount);

// The container's requests of memory types; none if it is not eligible (IsEligible).
// Errors: kInvalidArgument with the kubelet's text if an amount is not in WholeBytes.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, getContainerRequestedResources.
Result<MemoryRequest> RequestOf(const Pod& pod, const Container& container);

// The memory that the pod needs at the same time: apps and sidecars together, or, if it is more,
// one init container with the sidecars that start before it. Only types that an app container
// requests. Errors: as above. Source: policy_static.go, getPodRequestedResources.
Result<MemoryRequest> RequestOf(const Pod& pod);

// The memory that the pod is assigned as a whole, for its containers to have parts of: its positive
// pod-level requests of memory types, if it is pinned. None for all other pods, and with other
// `pod_level_managers` than kPod. Errors: as above.
// Source: policy_static.go, getPodRequestedResources.
Result<MemoryRequest> PodMemoryBudget(const Pod& pod);

}  // namespace alignd::memorymanager
