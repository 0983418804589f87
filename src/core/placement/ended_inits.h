// What init containers have that the other containers of their pod do not reuse. Private to the
// core.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// The state once all containers of the pod have started. `pod`: as on this node (OnThisNode).
admission::NodeState WithoutInitContainers(const admission::Node& node, const Pod& pod,
                                           admission::NodeState state);

// Whether CPUs are free in `after` that are not in `before`, or less is requested of the shared
// CPUs of a NUMA node.
bool FreesCpus(const Machine& machine, const admission::NodeState& before,
               const admission::NodeState& after);

// Whether memory of a NUMA node is free in `after` that is not in `before`, or its group is another
// one.
bool FreesMemory(const admission::NodeState& before, const admission::NodeState& after);

}  // namespace alignd::placement
