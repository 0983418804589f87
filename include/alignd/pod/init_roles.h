// Distinguishes sidecars from init containers where an annotation calls both init containers.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/cri_sizes.h"
#include "alignd/pod/pod.h"

namespace alignd {

// When an init container has ended, its CPUs are reused for the pod's next containers; those of a
// sidecar are not. The resources that the kubelet allocated for the pod show the difference: a
// sidecar adds to the app containers. Every init container that may be a sidecar becomes one. Their
// real order is not known: each sidecar is listed before as many init containers as the allocated
// CPUs and memory are enough for, if the pod needs no more of anything else then, so that no init
// container that starts while it runs is assigned its CPUs. Kubelets that do not show what they
// allocated have no sidecars. `sandbox`: the sandbox's resources.
// Errors: kInvalidArgument if several may be sidecars but not all of them.
Result<Done> FindSidecars(Pod& pod, const CriSizes& sandbox, const std::string& author);

}  // namespace alignd
