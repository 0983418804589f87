// What the plan of a change gives to containers that move together.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "core/admission/held_resources.h"

namespace alignd::admission {

// Containers of one pod that are placed together could get CPUs of each other, which none can leave
// first. Divides what they have in `next` among them in another way: each keeps what it has of it
// in `given`. Then checks that their memory stays near: no CPU is on a NUMA node on which the
// container had neither memory nor CPUs, if it is assigned memory.
// Gives why they cannot move; empty: they can.
std::string MakeMovable(const Node& node, const NodeState& given, const HoldingUnit& unit,
                        NodeState& next);

}  // namespace alignd::admission
