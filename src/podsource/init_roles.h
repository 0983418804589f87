// Applies sidecars from init containers where a text names them all init containers.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// An init container's CPUs go to the pod's next containers once it has ended; a sidecar's do not.
// What the kubelet counted for the pod tells them apart: a sidecar adds to the app containers.
// Every init container that may be a sidecar becomes one, and the sidecars come after the others
// (their real order is not known). Kubelets that do not show what they counted have no sidecars.
// Errors: kInvalidArgument where several may be sidecars but not all of them.
Result<Done> FindSidecars(Pod& pod, const runtime::v1::LinuxContainerResources& counted,
                          const std::string& author);

}  // namespace alignd::podsource
