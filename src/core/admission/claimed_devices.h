// The hint provider of devices that DRA has allocated before the admission: the only NUMA nodes on
// which CPUs and memory can be beside them. Private to the core.
#pragma once

#include <string>

#include "alignd/base/numa_mask.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

// The name of these devices among the hints. No resource has a name with a space.
inline constexpr char kClaimedDevices[] = "claimed devices";

// The NUMA nodes of the container's claimed devices together. Empty: it has none, or nothing tells
// where they are.
NumaMask ClaimedNodes(const Machine& machine, const Container& container);

// One preferred hint for the nodes of all devices together; no answer without such nodes.
// The kubelet has no such provider: its claims are prepared after its admission.
topologymanager::HintsByResource ClaimedHints(const Machine& machine, const Container& container);
// The same for all containers of the pod.
topologymanager::HintsByResource ClaimedHints(const Machine& machine, const Pod& pod);

// "gpu.example.com/gpu=0 on NUMA node 1, gpu.example.com/gpu=1 on no known NUMA node"; empty
// without such devices.
std::string DescribeClaimed(const Container& container);

}  // namespace alignd::admission
