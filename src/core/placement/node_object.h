// What a Node object says beside the description of the node. Private to the core.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/placement/manifest.h"
#include "alignd/placement/node_input.h"
#include "alignd/placement/scheduler.h"

namespace alignd::placement {

// The Node object is what the scheduler sees: `allocatable` becomes the object's. Its devices must
// be described in `input`, because the kubelet's decision needs their NUMA nodes: others become
// unlocated devices of `input`.
// Labels by which Koordinator's scheduler places pods in another way than `config` are notes.
// Errors: kInvalidArgument: the machine has another number of CPUs or another amount of memory or
// huge pages, or the object has a number of devices that the described ones cannot explain.
Result<Done> UseNodeObject(const NodeObject& object, const KubeletConfig& config, NodeInput& input,
                           Allocatable& allocatable);

// Why the scheduler would not consider the node for the pod: labels and taints. Empty: it would.
std::vector<std::string> UnmetConstraints(const NodeObject& node, const PlannedPod& pod);

}  // namespace alignd::placement
