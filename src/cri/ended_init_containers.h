// Which containers of a pod have ended, where no source names its init containers.
#pragma once

#include <functional>

#include "cri/handlers.h"
#include "podsource/resource_source.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// If `ask` has one container only, this adds the pod's ended init containers before it: their CPUs
// and memory are reused for it. Before an init container, this adds the app containers that are
// known to be such: they do not run yet, or not any more, and it reuses their CPUs.
//
// The pod's sum in the sandbox shows whether there are ended init containers: with all its
// containers, the pod would be assigned more than this sum. Candidates are containers that the
// runtime does not run any more: first those with exit code 0, the oldest first, then those of an
// earlier sandbox. A container that `ask` or an earlier request has shown to be no init container
// is none: it may be one that has not started yet. A kubelet before about 1.25 does not send the
// sum, and has no sidecars: then all containers with exit code 0 are init containers. An app
// container that ended with exit code 0 may be among them. If it runs again, alignd decides about
// it again, so nothing is allocated twice.
//
// The runtime is asked only if the result depends on it. If it does not answer, nothing is added.
// `done` runs once: before this function returns, or on the events thread. After the events loop
// has stopped, it is dropped.
void AddEndedInitContainers(const HandlerContext& context,
                            const runtime::v1::CreateContainerRequest& request,
                            podsource::PodAsk ask, std::function<void(podsource::PodAsk)> done);

}  // namespace alignd::cri
