// Containers of pods with pod-level resources whose sizes are from CRI, because the pod's source
// shows others: while a resize is pending, or after one.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "cri/container_handlers.h"
#include "podsource/resource_source.h"

namespace alignd::cri {

// The managers treat a pod of which not all sizes are known as without the feature gate
// PodLevelResourceManagers: its containers run in the shared pool. Where the gate is on, this keeps
// what the container is entitled to all the same. Where the managers decide container by container,
// it counts by its own sizes; one that has CPUs gets no more. Parts of a pod that has CPUs or
// memory as a whole stay as they are.
// Errors: kUnavailable if nothing of the pod is assigned yet, and it is to have CPUs or memory as a
// whole, or the sizes are those of an annotation.
Result<podsource::PodAsk> WithPodLevelSizes(const HandlerContext& context, podsource::PodAsk ask,
                                            const std::string& container);

}  // namespace alignd::cri
