// What the log says about a start.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "daemon/options.h"

namespace alignd::daemon {

// Version and commit, policies with their options, reserved CPUs, machine, sockets, and what of the
// assignments before the start was restored.
std::string StartLine(const Options& options, const admission::Node& node,
                      const admission::NodeState& restored);

// "static full-pcpus-only=true"
std::string DescribePolicy(std::string_view policy,
                           const std::map<std::string, std::string>& options);

// "2 pods with 3 containers and 6 exclusive CPUs"
std::string DescribeRestored(const admission::NodeState& restored);

}  // namespace alignd::daemon
