// What the log says about a start.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "daemon/options.h"

namespace alignd::daemon {

// Version and commit, policies with their options, reserved CPUs, machine, sockets, and what of the
// assignments before the start was restored.
std::string StartLine(const Options& options, const admission::Node& node,
                      const admission::NodeState& restored);

}  // namespace alignd::daemon
