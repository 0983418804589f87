// Extended resources that a DRA driver serves, of pods whose source does not show the scheduler's
// mapping of resources to requests of a claim.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"
#include "dra/prepared_claims.h"

namespace alignd::cri {

// Whether the container requests resources that a DRA driver may serve.
bool RequestsExtended(const Container& container);

// Removes the resources for which these devices were allocated: the container gets them by their
// CDI names, and no devices of a plugin beside them. `devices`: those that CreateContainer names.
// Returns the removed names.
// The name of a request has the index of the resource among those that the container requests,
// sorted by name. If it is not the index of an extended resource, resources without a plugin stay:
// they are refused later, unless --not-devices names them.
// Errors: kUnavailable if one of the container's resources has a plugin then: it is not known
// whether the container is to get devices of that.
// Source: KEP-5004; kube-scheduler, dynamicresources plugin, createRequestsAndMappings.
Result<std::vector<std::string>> RemoveServedByDra(const devicemanager::DeviceState& plugins,
                                                   const std::vector<dra::PreparedDevice>& devices,
                                                   Container& container);

}  // namespace alignd::cri
