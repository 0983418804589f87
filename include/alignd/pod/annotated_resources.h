// Pod annotations with the resources of each container, extended resources included. For nodes
// without another source of them.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd {

// Errors of all readers: kInvalidArgument with the place of the fault ("app.limits.cpu:
// ..."). A name that occurs twice and an unknown member are errors as well: a misspelt "limits"
// would request nothing. In all of them, a limit without a request is a request too.

inline constexpr std::string_view kResourcesAnnotation = "alignd.io/resources";

// Reads a JSON object: container name -> Kubernetes `resources` object. The containers come in the
// order of the text. For an init container, an entry also has `"init": true`, and for a sidecar
// `"restartPolicy": "Always"` as well. Init containers must come first. Skips kPodLevelEntry.
Result<std::vector<Container>> ParseAnnotatedResources(std::string_view json);

// In the same object, the entry with the pod's own requests and limits (spec.resources). No
// container can have this name.
inline constexpr std::string_view kPodLevelEntry = "spec.resources";

// Reads that entry; nullopt: there is none. `containers`: as read from the same text, for the
// defaults of the API server. The errors of the readers above.
Result<std::optional<Resources>> ParseAnnotatedPodLevel(std::string_view json,
                                                        const std::vector<Container>& containers);

inline constexpr std::string_view kIntelResourcesAnnotation = "intel.com/resources";

// Reads the annotation of the webhooks of cri-resource-manager and nri-plugins:
// {"initContainers": {NAME: RESOURCES}, "containers": {NAME: RESOURCES}}. All init containers are
// kInit: the text does not mark sidecars. The containers come in the order of the text, init
// containers first; the webhooks sort them by name.
// Source: intel/cri-resource-manager cmd/cri-resmgr-webhook/handlers.go, podResourceRequirements.
Result<std::vector<Container>> ParseIntelResources(std::string_view json);

inline constexpr std::string_view kKoordinatorAnnotation =
    "node.koordinator.sh/extended-resource-spec";

// Reads the annotation of Koordinator's webhook: {"containers": {NAME: {"requests", "limits"}}}. It
// has only extended resources, and only app containers that request some.
// Source: koordinator apis/extension, ExtendedResourceSpec.
Result<std::vector<Container>> ParseKoordinatorResources(std::string_view json);

}  // namespace alignd
