// The place of a pod where policies leave a choice: those of the pod, of its namespace, and
// numaAllocateStrategy. Private to the core.
#pragma once

#include <functional>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// What becomes of the pod under this policy of the CPU manager.
using DecideFn = std::function<Admission(const cpumanager::StaticPolicy& cpu)>;

// Decides with `policy`. What the pod must stay away from, it stays away from, or is refused. Where
// the pod is placed no worse for it, it also follows, the later one before the earlier one: the
// strategy of the node, what its containers ask for of isolated CPUs, and its exclusive policy.
Admission PlaceByPolicies(const Node& node, const NodeState& state, const Pod& pod,
                          const cpumanager::StaticPolicy& policy, const DecideFn& decide);

}  // namespace alignd::admission
