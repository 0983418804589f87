// The state of the node as metrics: what is free and assigned, conditions, plugins.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "metrics/families.h"
#include "reconcile/conditions.h"

namespace alignd::metrics {

// The resources that device plugins serve, of which more than this number are left out: the first
// in the order of their names stay.
inline constexpr size_t kMaxResources = 64;

// CPUs, memory and devices by NUMA node, and the devices by resource.
void CollectNode(const admission::Node& node, const admission::NodeState& state,
                 Families& families);

// Whether a plugin serves each resource, which `disconnected` names if its plugin has ended.
void CollectPlugins(const admission::NodeState& state, const std::set<std::string>& disconnected,
                    Families& families);

// How many conditions of each type there are. CpusetRepaired is an event, and not among them.
void CollectConditions(const std::vector<reconcile::Condition>& conditions, Families& families);

}  // namespace alignd::metrics
