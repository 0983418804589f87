// Which pods still have what a refused pod requests.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "allocation/admission_request.h"

namespace alignd::allocation {

// Text to append to a refusal: the pods that are ending and still have CPUs or devices that the pod
// requests, such as shared CPUs of one NUMA node, and the pods that have the devices that the
// kubelet allocated for it, each with its name and what it has; then the remedy. `all`: also the
// pods that run and have CPUs, pinned memory or devices that the pod requests. A kubelet forgets a
// pod that was deleted by force at once, and allocates its devices again, while the runtime still
// waits for its processes. Empty: there is none.
std::string DescribeHolders(const admission::Node& node, const admission::NodeState& state,
                            const AdmissionRequest& request, bool all = false);

}  // namespace alignd::allocation
