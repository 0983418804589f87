// The pod annotation `alignd.io/resources`: what each container asks for, extended resources
// included, for nodes on which nobody else says so.
#pragma once

#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd {

inline constexpr std::string_view kResourcesAnnotation = "alignd.io/resources";

// Reads a JSON object: container name -> Kubernetes `resources` object. The containers come in the
// order of the text. An entry may say, beside `requests` and `limits`, what Kubernetes says of init
// containers: `"init": true`, and with it `"restartPolicy": "Always"` for a sidecar; init
// containers must come first. Errors: kInvalidArgument with the place of the fault
// ("app.limits.cpu: ...").
Result<std::vector<Container>> ParseAnnotatedResources(std::string_view json);

}  // namespace alignd
