// featureGates. Private to the core.
#pragma once

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "core/json/json_view.h"

namespace alignd {

// Reads config.compatibility, which is read before. Errors: kInvalidArgument with the path of the
// gate: no boolean, or almost the name of a gate that alignd follows; with the kubelet's text: the
// gates contradict each other.
Result<Done> ReadFeatureGates(const json::View& top, KubeletConfig& config);

}  // namespace alignd
