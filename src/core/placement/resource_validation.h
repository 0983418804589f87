// The API server's validation of requests and limits. Private to the core.
// Source: kubernetes pkg/apis/core/validation/validation.go, ValidateResourceRequirements,
// validatePodResources, validateOverhead.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/pod/pod.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"

namespace alignd::placement {

// A list of amounts at `list`: names and quantities.
ResourceList CheckAmounts(const json::View& list, Faults& faults);

// `resources` of a container. Claims must be among `claims`, those of the pod.
Resources CheckContainerResources(const json::View& resources, const std::set<std::string>& claims,
                                  Faults& faults);

// spec.resources, against the containers, which have their resources with defaults.
void CheckPodResources(const json::View& resources, const std::vector<Container>& containers,
                       Faults& faults);

}  // namespace alignd::placement
