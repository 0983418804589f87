// What the description of a node has of a running alignd. Private to the core.
#pragma once

#include <cstdint>

#include "alignd/base/result.h"
#include "alignd/placement/node_input.h"
#include "core/json/json_view.h"

namespace alignd::placement {

// Of one resource of a node.
inline constexpr int64_t kMaxDevices = 4096;

// Of the member `owners`: which resources containers had some of, and, unless the description has
// `devices` itself, the healthy devices that alignd has reported.
// Errors: kInvalidArgument: a member is of another form.
Result<Done> TakeReportedDevices(const json::View& node, NodeInput& input);

}  // namespace alignd::placement
