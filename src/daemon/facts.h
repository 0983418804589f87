// What the status says of the daemon itself.
#pragma once

#include <chrono>
#include <vector>

#include "alignd/config/kubelet_config.h"
#include "alignd/control/v1/control.pb.h"
#include "control/reports.h"
#include "daemon/options.h"
#include "host/config_file.h"

namespace alignd::daemon {

// When the process started: the first call. A change of the configuration replaces the Daemon only.
std::chrono::system_clock::time_point ProcessStarted();

// `config`: with which alignd runs.
control::DaemonFacts FactsOf(const Options& options, const KubeletConfig& config);

// The fields of the configuration, the flags and the variables, with their sources.
std::vector<control::v1::Setting> SettingsOf(const Options& options, const host::ConfigFile& file);

}  // namespace alignd::daemon
