// The kinds of exclusive resources that a pod needs.
#pragma once

#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::allocation {

// "cpu" for exclusive CPUs; "memory" for pinned memory and huge pages, which are one kind: a NUMA
// node that is in a group with others for one of them is in it for all; the name of each device
// resource. Rather a kind too many than one too few: it decides for which pods others wait. `pod`
// as from AsDecided. Empty: the pod takes nothing that another pod could need.
std::set<std::string> ExclusiveNeeds(const admission::Node& node, const admission::NodeState& state,
                                     const Pod& pod);

// Whether a kind that ExclusiveNeeds names is a device resource.
bool IsDeviceKind(const std::string& kind);

// Whether the pod is assigned CPUs, memory or devices, for one of its containers or as a whole.
bool HasAssignment(const admission::NodeState& state, const std::string& pod_uid);

}  // namespace alignd::allocation
