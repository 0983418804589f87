// Feature gates of the kubelet that change what it writes into CRI.
#pragma once

#include "alignd/config/kubelet_config.h"

namespace alignd {

// Whether the feature gate DRANodeAllocatableResources (KEP-5517) is on: ResourceClaims may then
// have cpu, memory and huge pages, which the kubelet adds to a container's CFS quota, memory limit
// and huge pages, but not to its CPU shares. It is alpha, and off by default in every release.
bool DraNodeAllocatableResourcesOn(const KubeletConfig& config);

}  // namespace alignd
