// When the topology manager keeps pods on one NUMA node. Private to the core.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/topologymanager/policy.h"

namespace alignd::placement {

// Whether other rules than the NUMA nodes with enough of all decide where pods are.
bool HasOtherRules(const admission::Node& node);

// Whether the policy admits a pod only on one NUMA node, if one can have all of it.
bool KeepsOnOneNode(const admission::Node& node, const topologymanager::Policy& policy);

bool HasOneHint(const topologymanager::Policy& policy);

}  // namespace alignd::placement
