// Requested bytes by memory type. Private to the module.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::memorymanager {

using MemoryRequest = std::map<std::string, uint64_t>;  // bytes by memory type

// `memory` or `hugepages-...`.
bool IsMemoryType(std::string_view resource);

// Whether the pod's memory is pinned: it is Guaranteed and has no pod-level resources.
bool IsPinned(const Pod& pod);

// The container's requests of memory types.
// Errors: kInvalidArgument with the kubelet's text if an amount is negative or no whole number.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, getContainerRequestedResources.
Result<MemoryRequest> RequestOf(const Container& container);

// The memory that the pod needs at the same time: apps and sidecars together, or, if it is more,
// one init container with the sidecars that start before it. Only types that an app container
// requests. Errors: as above. Source: policy_static.go, getPodRequestedResources.
Result<MemoryRequest> RequestOf(const Pod& pod);

}  // namespace alignd::memorymanager
