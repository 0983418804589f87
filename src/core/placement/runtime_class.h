// RuntimeClass objects. Private to the core.
#pragma once

#include "alignd/base/result.h"
#include "alignd/placement/manifest.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// Adds the RuntimeClass. Errors: kInvalidArgument: what the API server refuses about it; a second
// one of its name that says something else.
Result<Done> ReadRuntimeClass(const json::View& object, Manifests& manifests);

}  // namespace alignd::placement
