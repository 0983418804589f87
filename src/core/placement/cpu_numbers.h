// Private to the core.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// Whether the decision depends on which CPUs are free, beyond what the options of the node say.
// The node must assign CPUs. `pod`: as OnThisNode has it.
bool NeedsCpuNumbers(const admission::Node& node, const Pod& pod);

}  // namespace alignd::placement
