// Reads the pod of a Pod object or of a pod template. Private to the core.
#pragma once

#include <string_view>

#include "alignd/placement/manifest.h"
#include "core/json/json_view.h"
#include "core/placement/faults.h"

namespace alignd::placement {

// Whether the object has a member of that name that is not null and not empty.
bool HasValue(const json::View& object, std::string_view key);

// Validates the pod that `object` (a Pod or a pod template) states, and fills `workload.pod` and
// `workload.runtime_class`. `faults` may have some of the object around it; all become faults of
// the pod.
void ReadPlannedPod(const json::View& object, bool is_template, Workload& workload, Faults& faults);

}  // namespace alignd::placement
