// Kinds of resources, by name.
#pragma once

#include <string_view>

#include "alignd/base/result.h"

namespace alignd {

// Whether the name is neither cpu, memory, ephemeral-storage nor huge pages, such as a resource of
// a device plugin.
bool IsExtendedResource(std::string_view name);

// Whether the name is that of memory or of huge pages, of which the memory manager assigns bytes.
bool IsMemoryName(std::string_view name);

// Whether containers may get devices of that name from a device plugin: an extended resource
// outside of kubernetes.io.
// Source: Kubernetes pkg/apis/core/v1/helper/helpers.go, IsExtendedResourceName, which the kubelet
// requires of a device plugin's resource.
bool MayBeDevice(std::string_view name);

// The same for a name that is written into `notDevices`.
// Errors: kInvalidArgument: containers get no devices of that name in any case.
Result<Done> CheckNotDevice(std::string_view name);

}  // namespace alignd
