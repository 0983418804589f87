// Who holds something.
#pragma once

#include <set>
#include <string>

#include "alignd/admission/node_state.h"

namespace alignd::admission {

// The UIDs of all pods that hold something, be it only a stored affinity.
std::set<std::string> PodsIn(const NodeState& state);

}  // namespace alignd::admission
