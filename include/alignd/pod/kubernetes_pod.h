// A `Pod` from the JSON of a Kubernetes v1 Pod.
#pragma once

#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd {

// Reads a v1 Pod as the API server stores it. Applies the one default that matters here: a limit
// without a request becomes a request too. Fields that do not concern us are skipped.
// Errors: kInvalidArgument with the path of the fault ("spec.containers[1].resources.limits.cpu").
// Source: k8s.io/api core/v1, Pod.
Result<Pod> ParseKubernetesPod(std::string_view json);

// Reads one Kubernetes ResourceRequirements object ({"requests":{..},"limits":{..}}), the same way.
// `path` names it in errors.
Result<Resources> ParseResources(std::string_view json, std::string_view path);

}  // namespace alignd
