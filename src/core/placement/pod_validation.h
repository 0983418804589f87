// The API server's validation of a pod, of the fields that are read here. Private to the core.
// Source: kubernetes pkg/apis/core/validation/validation.go, ValidatePodCreate.
#pragma once

#include "core/json/json_view.h"
#include "core/placement/faults.h"

namespace alignd::placement {

// `metadata` of any object. `is_template`: a pod template's, which needs no name.
void CheckMetadata(const json::View& object, bool is_template, Faults& faults);

// `spec` of a Pod or of a pod template.
void CheckPodSpec(const json::View& object, Faults& faults);

}  // namespace alignd::placement
