// The hint provider of devices that DRA has allocated before the admission: the only NUMA nodes on
// which CPUs and memory can be beside them. Private to the core.
#pragma once

#include <string>
#include <vector>

#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

// The name of these devices among the hints. No resource has a name with a space.
inline constexpr char kClaimedDevices[] = "claimed devices";

// One preferred hint for the nodes of all devices together. No answer if their nodes are not known
// or have no CPUs, and none if no other provider has answered: there is nothing to align then.
// The kubelet has no such provider: its claims are prepared after its admission.
topologymanager::HintsByResource ClaimedHints(
    const Machine& machine, const std::vector<ClaimedDevice>& devices,
    const std::vector<topologymanager::HintsByResource>& others);

// "gpu.example.com/gpu-0 on NUMA node 1, gpu.example.com/gpu-1 on an unknown NUMA node"; empty
// without devices.
std::string DescribeClaimed(const std::vector<ClaimedDevice>& devices);

}  // namespace alignd::admission
