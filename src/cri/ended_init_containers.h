// Which containers of a pod have ended, where no source names its init containers.
#pragma once

#include <functional>

#include "cri/handlers.h"
#include "podsource/resource_source.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// If `ask` has one container alone, this adds the pod's ended init containers before it: their CPUs
// and memory are reused for it. Ended init containers are containers that the runtime does not run
// any more, and without which the pod would have more than the kubelet allocated for it. First
// those with exit code 0 are taken, the oldest first, then those of an earlier sandbox. A kubelet
// that does not show what it allocated (before 1.25 or so) has no sidecars either: all containers
// with exit code 0 are then init containers. An app container that ended with exit code 0 before
// its pod was complete may be among them. If it runs again, alignd decides about it again, so that
// nothing is allocated twice. The runtime is asked only if the result depends on it. If it does not
// answer, nothing is added. `done` runs once, perhaps before this function returns, on any thread.
void AddEndedInitContainers(const HandlerContext& context,
                            const runtime::v1::CreateContainerRequest& request,
                            podsource::PodAsk ask, std::function<void(podsource::PodAsk)> done);

}  // namespace alignd::cri
