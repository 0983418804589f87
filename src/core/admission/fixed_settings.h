// Settings that no running alignd can change. Private to the module.
#pragma once

#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"

namespace alignd::admission {

// Each that differs, with what to do.
std::vector<std::string> FaultsOfFixedSettings(const Node& before, const Node& after,
                                               const NodeState& state);

}  // namespace alignd::admission
