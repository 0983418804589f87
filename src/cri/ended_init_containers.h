// Which containers of a pod have run to their end, where nothing tells its init containers.
#pragma once

#include <functional>

#include "cri/handlers.h"
#include "podsource/resource_source.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// An ask that knows one container alone gets those containers of the pod in front of it, as init
// containers, that hold something and must have ended for good: what they hold serves this one.
// They are those without which the pod would hold more than the kubelet counted for it, and that
// the runtime does not run any more: first those that ended well, the oldest first, then those of
// an earlier sandbox. A kubelet that does not show what it counted (before 1.25 or so) has no
// sidecars either: there all that ended well are taken for init containers.
// An app container that ended well before its pod was complete may be among them: should it run
// again, it is decided about again, so nothing is given twice.
// Asks the runtime only where something hangs on it; where that does not answer, nothing is added.
// `done` runs once, perhaps before the end, on any thread.
void AddEndedInitContainers(const HandlerContext& context,
                            const runtime::v1::CreateContainerRequest& request,
                            podsource::PodAsk ask, std::function<void(podsource::PodAsk)> done);

}  // namespace alignd::cri
