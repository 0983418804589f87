// Reads Kubernetes resource lists from JSON. Private to the core's readers.
#pragma once

#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "core/json/json_view.h"

namespace alignd {

// One quantity, a string or a number. Errors: as below.
Result<Quantity> ReadQuantity(const json::View& view);

// A JSON object of quantities, each a string or a number.
// Errors: kInvalidArgument with the entry's path if one cannot be read or is negative.
// Source: apimachinery pkg/api/resource/quantity.go, UnmarshalJSON; core/validation,
// ValidateNonnegativeQuantity.
Result<ResourceList> ReadResourceList(const json::View& view);

// The same for the member of that name, which may be absent.
Result<ResourceList> ReadResourceList(const json::View& view, std::string_view member);

// Fills pod-level requests: from the containers for cpu and memory, else from the pod's limits.
// Source: kubernetes pkg/apis/core/v1/defaults.go, defaultPodRequests.
void DefaultPodRequests(const std::vector<Container>& containers, Resources& resources);

}  // namespace alignd
