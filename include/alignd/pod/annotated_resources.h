// Pod annotations that tell what each container asks for, extended resources included, for nodes on
// which nobody else says so.
#pragma once

#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd {

// Errors of all three readers: kInvalidArgument with the place of the fault ("app.limits.cpu:
// ..."), also for a name that occurs twice and for a member that is not known, which is likely
// misspelt: a misspelt "limits" would ask for nothing. In each, a limit without a request is a
// request too.

inline constexpr std::string_view kResourcesAnnotation = "alignd.io/resources";

// Reads a JSON object: container name -> Kubernetes `resources` object. The containers come in the
// order of the text. An entry may say, beside `requests` and `limits`, what Kubernetes says of init
// containers: `"init": true`, and with it `"restartPolicy": "Always"` for a sidecar; init
// containers must come first.
Result<std::vector<Container>> ParseAnnotatedResources(std::string_view json);

inline constexpr std::string_view kIntelResourcesAnnotation = "intel.com/resources";

// Reads what the webhooks of cri-resource-manager and nri-plugins write:
// {"initContainers": {NAME: RESOURCES}, "containers": {NAME: RESOURCES}}. All init containers are
// kInit: the text does not tell sidecars. The containers come in the order of the text, init
// containers first; the webhooks sort them by name.
// Source: intel/cri-resource-manager cmd/cri-resmgr-webhook/handlers.go, podResourceRequirements.
Result<std::vector<Container>> ParseIntelResources(std::string_view json);

inline constexpr std::string_view kKoordinatorAnnotation =
    "node.koordinator.sh/extended-resource-spec";

// Reads what Koordinator's webhook writes: {"containers": {NAME: {"requests", "limits"}}}, with
// extended resources and nothing else in the lists, and only app containers that ask for some.
// Source: koordinator apis/extension, ExtendedResourceSpec.
Result<std::vector<Container>> ParseKoordinatorResources(std::string_view json);

}  // namespace alignd
