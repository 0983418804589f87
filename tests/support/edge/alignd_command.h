// The command line that gives alignd, as a process, the options of a test.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "alignd/config/kubelet_config.h"
#include "daemon/options.h"

namespace alignd::testing {

// A flag, and its value if it takes one.
using FlagWords = std::vector<std::string>;

// Each option as its flag. Not here: --check and --output, with which alignd does not run, and
// --mirror-resource. An option without a flag keeps its default.
inline std::vector<FlagWords> AligndFlags(const daemon::Options& options) {
  const auto ms = [](std::chrono::milliseconds time) { return std::to_string(time.count()); };
  const auto list = [](const auto& names) {
    std::string text;
    for (const std::string& name : names) text += (text.empty() ? "" : ",") + name;
    return text;
  };
  const auto on_refusal = [&options]() -> std::string {
    if (!options.on_refusal.waits) return "refuse";
    if (!options.on_refusal.fail_after_ms) return "wait";
    return "fail-after=" + std::to_string(*options.on_refusal.fail_after_ms) + "ms";
  };
  const auto mirror = [&options]() -> std::string {
    if (!options.mirror) return "off";
    switch (options.mirror->Of("example.com/any")) {
      case mirror::BindingMode::kPreferred:
        return "preferred";
      case mirror::BindingMode::kDeferred:
        return "deferred";
      case mirror::BindingMode::kStrict:
        return "strict";
    }
    return "";
  };
  const bool rebuilds = options.on_bad_state == allocation::OnBadState::kRebuild;
  return {
      {"--config", options.config},
      {"--listen", options.listen},
      {"--control-socket", options.control_socket},
      {"--runtime-endpoint", options.runtime_endpoint},
      {"--state-dir", options.state_dir},
      {"--on-bad-state", rebuilds ? "rebuild" : "refuse"},
      {"--device-plugin-dir", options.device_plugin_dir},
      {"--pods-api-endpoint", options.pods_api_endpoint},
      options.annotated_extended_resources
          ? FlagWords{"--annotated-extended-resources",
                      *options.annotated_extended_resources ? "true" : "false"}
          : FlagWords{},
      {"--not-devices", list(options.not_devices.value_or(std::set<std::string>()))},
      {"--shared-pool-handlers",
       list(options.shared_pool_handlers.value_or(DefaultSharedPoolHandlers()))},
      {"--plugins-registry", options.plugins_registry},
      {"--pod-resources-socket", options.pod_resources_socket},
      {"--mirror", mirror()},
      {"--kubelet-device-plugin-dir", options.kubelet_device_plugin_dir},
      {"--kubelet-plugins-registry", options.kubelet_plugins_registry},
      {"--root", options.root},
      {"--node", options.node},
      {"--cgroup-root", options.cgroup_root},
      {"--kubelet-dir", options.kubelet_dir},
      {"--cdi-spec-dirs", list(options.cdi_spec_dirs)},
      options.keep_pod_cpu_quota ? FlagWords{"--keep-pod-cpu-quota"} : FlagWords{},
      {"--resize-exclusive-cpus", std::string(ToString(options.resize_exclusive_cpus))},
      {"--may-move", options.may_move},
      {"--on-refusal", on_refusal()},
      {"--kubelet-compatibility",
       options.compatibility ? std::string(ToString(*options.compatibility)) : ""},
      {"--pod-policies", options.pod_policies ? ToText(*options.pod_policies) : ""},
      {"--runtime-timeout-ms", ms(options.runtime_timeout)},
      {"--plugin-timeout-ms", ms(options.plugin_timeout)},
      {"--plugin-connect-timeout-ms", ms(options.plugin_connect_timeout)},
      {"--plugin-preference-timeout-ms", ms(options.plugin_preference_timeout)},
      {"--plugin-pre-start-timeout-ms", ms(options.plugin_pre_start_timeout)},
      {"--plugin-grace-ms", ms(options.plugin_grace)},
      {"--plugin-patience-ms", ms(options.plugin_patience)},
      {"--metrics-address", options.metrics_address},
      {"--log-level", options.log_level},
      {"--log-format", options.log_format},
  };
}

// The program, and a flag for each option that has another value than its default.
inline std::vector<std::string> AligndCommand(const std::string& program,
                                              const daemon::Options& options) {
  std::vector<std::string> command = {program};
  const std::vector<FlagWords> defaults = AligndFlags(daemon::Options());
  const std::vector<FlagWords> flags = AligndFlags(options);
  for (size_t i = 0; i < flags.size(); ++i) {
    if (flags[i] != defaults[i]) command.insert(command.end(), flags[i].begin(), flags[i].end());
  }
  return command;
}

}  // namespace alignd::testing
