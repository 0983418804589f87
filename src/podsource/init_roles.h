// Distinguishes sidecars from init containers where an annotation calls both init containers.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// When an init container has ended, its CPUs are reused for the pod's next containers; those of a
// sidecar are not. The resources that the kubelet allocated for the pod show the difference: a
// sidecar adds to the app containers. Every init container that may be a sidecar becomes one, and
// the sidecars are listed after the init containers (their real order is not known). Kubelets that
// do not show what they allocated have no sidecars. `sandbox`: the sandbox's resources.
// Errors: kInvalidArgument if several may be sidecars but not all of them.
Result<Done> FindSidecars(Pod& pod, const runtime::v1::LinuxContainerResources& sandbox,
                          const std::string& author);

}  // namespace alignd::podsource
