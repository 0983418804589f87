// alignd as a process, with the options of a test's daemon.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include "daemon/options.h"
#include "edge/process.h"

namespace alignd::daemon {

inline std::vector<std::string> AligndCommand(const std::string& program, const Options& options) {
  const auto ms = [](std::chrono::milliseconds time) { return std::to_string(time.count()); };
  return {program,
          "--config",
          options.config,
          "--node",
          options.node,
          "--on-refusal",
          "refuse",  // as DaemonTest
          "--metrics-address",
          "off",
          "--listen",
          options.listen,
          "--runtime-endpoint",
          options.runtime_endpoint,
          "--state-dir",
          options.state_dir,
          "--mirror",
          options.mirror->Of("example.com/any") == mirror::BindingMode::kDeferred ? "deferred"
                                                                                  : "preferred",
          "--kubelet-plugins-registry",
          options.kubelet_plugins_registry,
          "--kubelet-device-plugin-dir",
          options.kubelet_device_plugin_dir,
          "--pods-api-endpoint",
          "",
          "--cgroup-root",
          options.cgroup_root,
          "--kubelet-dir",
          options.kubelet_dir,
          "--plugin-connect-timeout-ms",
          ms(options.plugin_connect_timeout),
          "--plugin-preference-timeout-ms",
          ms(options.plugin_preference_timeout),
          "--plugin-patience-ms",
          ms(options.plugin_patience),
          "--log-level",
          "warn"};
}

// The resident memory of the process; 0 if it is not known.
inline long ResidentKb(pid_t pid) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmRSS:")) return std::stol(line.substr(6));
  }
  return 0;
}

}  // namespace alignd::daemon
