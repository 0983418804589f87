// A `Pod` from the JSON of a Kubernetes v1 Pod.
#pragma once

#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd {

// Reads a v1 Pod, as the API server stores it or as a manifest states it. Applies the defaults that
// matter here: a limit without a request becomes a request too. At pod level, the cpu and memory
// requests of the containers take precedence. A manifest without uid gets `<namespace>/<name>` as
// its uid. Of the annotations, those of pod_policies.h are read: what is
// wrong with their values is no error here (PodPolicies::fault). Other fields are skipped. Errors:
// kInvalidArgument with the path of the fault
// ("spec.containers[1].resources.limits.cpu"): not JSON, a wrong type, a value that is no quantity
// or is negative, a container name that is missing or occurs twice, no container, neither uid nor
// name. Source: k8s.io/api core/v1, Pod; kubernetes pkg/apis/core/v1/defaults.go.
Result<Pod> ParseKubernetesPod(std::string_view json);

// Reads one Kubernetes ResourceRequirements object ({"requests":{..},"limits":{..}}), the same way.
// `path` names it in errors.
Result<Resources> ParseResources(std::string_view json, std::string_view path);

}  // namespace alignd
