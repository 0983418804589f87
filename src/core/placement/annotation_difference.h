// How an annotation with resources differs from the spec of its pod. Private to the core.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "alignd/pod/pod.h"

namespace alignd::placement {

// The first difference because of which a node that follows the annotation refuses the pod, or
// takes it as something else than its spec has: what the annotation "has", "names" or "does not
// say". nullopt: there is none. `key`: the annotation. `stated`: the pod as it states it, with the
// kinds of containers that a node concludes.
std::optional<std::string> DifferenceFromSpec(std::string_view key, const Pod& stated,
                                              const Pod& pod);

}  // namespace alignd::placement
