// What the status of a pod that is bound to a node says about it. Private to the core.
#pragma once

#include <nlohmann/json.hpp>

#include "alignd/placement/topology_nodes.h"

namespace alignd::placement {

// Whether a container of the running pod does not run, and is started again: it waits between two
// starts (CrashLoopBackOff), or has just ended. False for pods without statuses of containers.
// `pod`: a v1 Pod.
bool IsRestarting(const nlohmann::json& pod);

}  // namespace alignd::placement
