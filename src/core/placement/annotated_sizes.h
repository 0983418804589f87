// What a node concludes from the sizes of a pod in CRI, where it follows an annotation with
// resources: the same functions as in AnnotationSource, with the sizes that the kubelet writes for
// the pod's spec. Private to the core.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/pod/pod.h"

namespace alignd::placement {

// The containers of `intel.com/resources` with the kinds that the node concludes, in its order. A
// kind matters only to a container that requests something: others have that of the spec. `pod`: as
// its spec states it. Errors: as FindSidecars.
Result<std::vector<Container>> WithConcludedKinds(const std::vector<Container>& annotated,
                                                  const Pod& pod, const std::string& author);

// Why the node refuses the pod or one of its containers. `stated`: as the annotation has it, with
// the sizes of the spec. `pod`: as its spec states it.
std::optional<std::string> RefusalBySizes(const Pod& stated, const Pod& pod,
                                          const std::string& author);

}  // namespace alignd::placement
