// What the status of a pod that is bound to a node says about it. Private to the core.
#pragma once

#include "alignd/placement/manifest.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// Whether a container of the running pod does not run, and is started again: it waits between two
// starts (CrashLoopBackOff), or has just ended. False for pods without statuses of containers.
// `pod`: a v1 Pod.
bool IsRestarting(const nlohmann::json& pod);

// Whether the API server has the pod: a UID, and a phase.
bool IsOfApiServer(const nlohmann::json& pod);

// Takes what the status says of a pod that is resized in place. While it is, its containers request
// what the scheduler counts: the larger one of spec and status, and only the status if the node can
// never do it. An amount that cannot be read is a fault.
// Source: k8s.io/component-helpers/resource/helpers.go, PodRequests with UseStatusResources.
void TakeStatus(const nlohmann::json& pod, PlannedPod& planned);

}  // namespace alignd::placement
