// A `Pod` from the protobuf encoding of a Kubernetes v1 Pod.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::podsource {

// The same pod that ParseKubernetesPod makes of the JSON encoding, with the same checks and
// defaults. Fields that alignd does not use are skipped.
// Errors: kInvalidArgument, if the bytes are no protobuf message; as ParseKubernetesPod.
Result<Pod> ParseV1Pod(std::string_view bytes);

// The names of the pod's ephemeral containers (`kubectl debug`), which the pod of ParseV1Pod does
// not have: they are no part of what the pod was admitted with. Empty for bytes that are no pod.
std::vector<std::string> EphemeralContainers(std::string_view bytes);

// Whether the status has the scheduler's mapping of extended resources to a ResourceClaim. The pod
// of ParseV1Pod is without those resources then. Kubelet 1.36.2 serves the status that it generates
// itself, which never has the mapping. False for bytes that are no pod.
// Source: kubelet 1.36.2 pkg/kubelet/apis/pods/server.go, GetPod; pkg/kubelet/kubelet_pods.go,
// generateAPIPodStatus.
bool ShowsExtendedClaim(std::string_view bytes);

// Whether the pod may have other requests than it was scheduled with: a resize and other changes of
// the spec increment metadata.generation, which begins with 1. True for bytes that are no pod, and
// for a pod without a generation.
// Source: kubernetes pkg/registry/core/pod/strategy.go, PrepareForCreate and PrepareForUpdate.
bool MayBeResized(std::string_view bytes);

}  // namespace alignd::podsource
