// What the status says of the daemon itself.
#pragma once

#include <vector>

#include "alignd/config/kubelet_config.h"
#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"
#include "daemon/options.h"
#include "host/config_file.h"

namespace alignd::daemon {

// As of now, which is the start. `config`: with which alignd runs.
control::DaemonFacts FactsOf(const Options& options, const KubeletConfig& config);

// The fields of the configuration, the flags and the variables, with their sources.
std::vector<control::v1::Setting> SettingsOf(const Options& options, const host::ConfigFile& file);

}  // namespace alignd::daemon
