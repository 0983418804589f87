// The policies that the pods of a namespace have without an annotation. Private to the core.
#pragma once

#include "alignd/base/result.h"
#include "alignd/pod/pod_policies.h"
#include "core/json/json_view.h"

namespace alignd {

// Reads an object whose members are named after those of the annotations, or after annotations that
// have one value, and have the same values.
// Errors: kInvalidArgument with the path, the value and what is allowed.
Result<PlacementPolicies> ReadDefaultPolicies(const json::View& object);

}  // namespace alignd
