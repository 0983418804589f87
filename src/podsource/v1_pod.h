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

// Whether the spec may have changed since the pod was created: a resize increments
// metadata.generation, which begins with 1, and so do removed scheduling gates, other images and
// ephemeral containers. True for bytes that are no pod, and for a pod without a generation.
// Source: kubernetes pkg/registry/core/pod/strategy.go, PrepareForCreate and PrepareForUpdate.
bool HasLaterGeneration(std::string_view bytes);

// Whether metadata.managedFields shows that no resize has added a cpu or memory request: there was
// none, and each container has those requests, or the limits from which they follow, from an update
// of the pod itself. Those cannot be changed in this way after the pod's creation. False for bytes
// that are no pod, and where the fields were applied or set by an admission plugin, or where the
// API server has merged old entries.
// Source: apimachinery pkg/util/managedfields/internal/capmanagers.go; apiserver
// pkg/endpoints/handlers/create.go; kubernetes pkg/apis/core/validation, ValidatePodUpdate.
bool HasRequestsSinceCreation(std::string_view bytes);

}  // namespace alignd::podsource
