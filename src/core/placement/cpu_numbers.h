// Private to the core.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// Whether the decision depends on which CPUs are free, beyond what the options of the node say.
// The node must assign CPUs. `pod`: as OnThisNode has it.
bool NeedsCpuNumbers(const admission::Node& node, const Pod& pod);

// Whether the pod stays away from CPUs of certain other pods if it can
// (preferredCPUExclusivePolicy): it fits if it fits without, but its NUMA nodes can be others.
bool PrefersCpuNumbers(const admission::Node& node, const Pod& pod);

}  // namespace alignd::placement
