// What the status says of the daemon itself.
#pragma once

#include "alignd/config/kubelet_config.h"
#include "control/reports.h"
#include "daemon/options.h"

namespace alignd::daemon {

// As of now, which is the start. `config`: with which alignd runs.
control::DaemonFacts FactsOf(const Options& options, const KubeletConfig& config);

}  // namespace alignd::daemon
