// The node that alignd manages.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "daemon/options.h"

namespace alignd::daemon {

// This machine, or that of --node, with the configuration of --config. Errors: with a remedy.
Result<admission::Node> MakeNode(const Options& options);

// The same machine with this configuration. Errors: with a remedy.
Result<admission::Node> MakeNode(const Options& options, Machine machine, KubeletConfig config);

}  // namespace alignd::daemon
