// What the kinds of admission::ExclusiveNeeds are, and which pods have some.
#pragma once

#include <string>

#include "alignd/admission/exclusive_needs.h"
#include "alignd/admission/node_state.h"

namespace alignd::allocation {

using admission::ExclusiveNeeds;

// Whether a kind that ExclusiveNeeds names is a device resource.
bool IsDeviceKind(const std::string& kind);

// Whether the pod is assigned CPUs, memory or devices, for one of its containers or as a whole.
bool HasAssignment(const admission::NodeState& state, const std::string& pod_uid);

}  // namespace alignd::allocation
