// Whether a container that comes again has all it asks for already.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::allocation {

// True if nothing is left to decide: the container has exclusive CPUs, memory blocks and answered
// devices as far as it is entitled to them, or asks for nothing that is given away. After a crash
// between two state files a container may have some of it only.
bool HoldsAllItAsks(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                    const Container& container);

}  // namespace alignd::allocation
