// The node that alignd manages.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "daemon/options.h"

namespace alignd::daemon {

// This machine, or that of --node, with the configuration of --config. Errors: with a remedy.
Result<admission::Node> MakeNode(const Options& options);

}  // namespace alignd::daemon
