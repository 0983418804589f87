// The kinds of exclusive resources that a pod needs.
#pragma once

#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

inline constexpr char kCpuKind[] = "cpu";
inline constexpr char kMemoryKind[] = "memory";

// "cpu" for exclusive CPUs; "memory" for pinned memory and huge pages, which are one kind: a NUMA
// node that is in a group with others for one of them is in it for all; the name of each device
// resource. Rather a kind too many than one too few: it decides for which pods others wait. `pod`
// is as the node manages it (OnThisNode). Empty: the pod takes nothing that another pod could need.
std::set<std::string> ExclusiveNeeds(const Node& node, const NodeState& state, const Pod& pod);

}  // namespace alignd::admission
