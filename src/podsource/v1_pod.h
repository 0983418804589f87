// A `Pod` from the protobuf encoding of a Kubernetes v1 Pod.
#pragma once

#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::podsource {

// The same pod that ParseKubernetesPod makes of the JSON encoding, with the same checks and
// defaults. Fields that alignd does not use are skipped.
// Errors: kInvalidArgument, if the bytes are no protobuf message; as ParseKubernetesPod.
Result<Pod> ParseV1Pod(std::string_view bytes);

}  // namespace alignd::podsource
