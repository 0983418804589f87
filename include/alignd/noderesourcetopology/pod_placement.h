// What pods have on which NUMA node, in the form in which KAI-Scheduler reads it from a pod.
#pragma once

#include <map>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"

namespace alignd::noderesourcetopology {

// Its value: [{"zone":"node-0","amount":{"cpu":"8","nvidia.com/gpu":"2"}}].
// Source: KAI-Scheduler pkg/npe/consts/consts.go; pkg/apis/scheduling/v1alpha2,
// NUMAZonePlacement.
inline constexpr char kPlacementAnnotation[] = "kai.scheduler/numa-placement-observed";

// The value for each pod, by UID: exclusive CPUs that are online, devices and assigned memory that
// are on one NUMA node. What is on several, or on none, belongs to no zone and is left out. Without
// pods that have nothing on a zone.
// Source: KAI-Scheduler pkg/npe/placement/placement.go, Compute.
std::map<std::string, std::string> PodPlacements(const admission::Node& node,
                                                 const admission::NodeState& state);

}  // namespace alignd::noderesourcetopology
