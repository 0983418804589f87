// Which pods still have what a refused pod requests.
#pragma once

#include <set>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "allocation/admission_request.h"

namespace alignd::allocation {

// Text to append to a refusal: the pods that have what the pod requests and does not get, each with
// its name and what it has; then the remedy. Empty: there is none.
// `lacking`: the resources that are short (admission::LackingResources); all pods that have some of
// these are named, the ones that are ending first. nullptr: the refusal has another reason; only
// pods that are ending are named, and pods that have the devices that the kubelet allocated for the
// refused pod. A kubelet forgets a pod that was deleted by force at once, and allocates its devices
// again, while the runtime still waits for its processes.
std::string DescribeHolders(const admission::Node& node, const admission::NodeState& state,
                            const AdmissionRequest& request, const std::set<std::string>* lacking);

}  // namespace alignd::allocation
