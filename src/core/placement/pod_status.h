// What the status of a pod that is bound to a node says about it. Private to the core.
#pragma once

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// Whether a container of the running pod does not run, and is started again: it waits between two
// starts (CrashLoopBackOff), or has just ended. False for pods without statuses of containers.
// `pod`: a v1 Pod.
bool IsRestarting(const nlohmann::json& pod);

// Whether the pod is resized in place: the node has not done yet what its spec says, or refuses it.
bool IsResizing(const nlohmann::json& pod);

// Counts for containers and pod what the scheduler counts while they are resized: the larger one of
// spec and status, and only the status if the node can never do it.
// Source: k8s.io/component-helpers/resource/helpers.go, PodRequests with UseStatusResources.
// Errors: kInvalidArgument: an amount in the status that is none.
Result<Done> CountStatus(const nlohmann::json& pod, Pod& counted);

}  // namespace alignd::placement
