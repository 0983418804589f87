// What a pod that is on its node already has of the policies that it asks for. Private to the core.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/placement/planned_node.h"

namespace alignd::placement {

// A note about containers of the description of the node (NodeInput::owned).
inline constexpr char kOwnersNote[] =
    "containers had CPUs or devices when the description of the node was made; what their pods "
    "request is not counted; add the pods that run (--running)";

// NAMESPACE/NAME.
std::string NameOf(const Pod& pod);

// The pod as it runs. If the node would refuse it now, whatever else is there, for what it asks for
// by its label or for one NUMA node, it runs since before it asked, or before the node followed it:
// it has been decided about without that.
PlannedPod AsItRuns(const admission::Node& node, const admission::NodeState& state, PlannedPod pod);

// The pod, without asking for shared CPUs of one NUMA node.
PlannedPod WithoutShare(const admission::Node& node, PlannedPod pod);

// Whether the node refuses the pod for its label before it assigns anything, whatever else is
// there: none of its containers gets exclusive CPUs.
bool IsRefusedByLabel(const admission::Node& node, const admission::NodeState& state,
                      const PlannedPod& pod);

}  // namespace alignd::placement
