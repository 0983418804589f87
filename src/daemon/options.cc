#include "daemon/options.h"

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <map>

namespace alignd::daemon {

std::optional<Options> ParseOptions(int argc, const char* const* argv, int& exit_status) {
  Options options;
  int64_t runtime_timeout_ms = options.runtime_timeout.count();
  int64_t plugin_timeout_ms = options.plugin_timeout.count();
  std::string compatibility;

  CLI::App app("alignd: aligns containers with NUMA nodes, between the kubelet and its runtime",
               "alignd");
  app.set_version_flag("--version", ALIGND_VERSION);
  app.add_option("--config", options.config,
                 "KubeletConfiguration (YAML or JSON); the kubelet's defaults if not given")
      ->check(CLI::ExistingFile);
  app.add_option("--listen", options.listen, "CRI socket that the kubelet is to use")
      ->capture_default_str();
  app.add_option(
      "--control-socket", options.control_socket,
      "Socket that alignctl is to use; control.sock beside that of --listen if not given");
  app.add_option("--runtime-endpoint", options.runtime_endpoint, "CRI socket of the runtime")
      ->capture_default_str();
  app.add_option("--state-dir", options.state_dir,
                 "Directory of cpu_manager_state and memory_manager_state")
      ->capture_default_str();
  app.add_option("--device-plugin-dir", options.device_plugin_dir,
                 "Directory of kubelet.sock, the plugins' sockets and kubelet_internal_checkpoint; "
                 "device-plugins in the state directory if not given");
  app.add_option("--root", options.root, "Directory with the sys/ and proc/ of the machine")
      ->capture_default_str();
  app.add_option("--node", options.node,
                 "Manage this node (JSON, as `alignctl topology -o json` prints it) instead of the "
                 "machine: for trials with a simulated runtime")
      ->check(CLI::ExistingFile);
  app.add_option("--kubelet-compatibility", compatibility,
                 "Kubelet release whose merge rules apply; overrides the configuration")
      ->check(CLI::IsMember({"1.20", "1.36"}));
  app.add_option("--runtime-timeout-ms", runtime_timeout_ms,
                 "Longest wait for our own calls of the runtime")
      ->check(CLI::Range(int64_t{1}, int64_t{3'600'000}))
      ->capture_default_str();
  app.add_option("--plugin-timeout-ms", plugin_timeout_ms, "Longest wait for a device plugin")
      ->check(CLI::Range(int64_t{1}, int64_t{3'600'000}))
      ->capture_default_str();
  app.add_option("--log-level", options.log_level)
      ->check(CLI::IsMember({"debug", "info", "warn", "error"}))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    exit_status = app.exit(error);
    return std::nullopt;
  }
  if (!compatibility.empty()) {
    options.compatibility = compatibility == "1.20" ? Compatibility::k1_20 : Compatibility::k1_36;
  }
  options.runtime_timeout = std::chrono::milliseconds(runtime_timeout_ms);
  options.plugin_timeout = std::chrono::milliseconds(plugin_timeout_ms);
  return options;
}

}  // namespace alignd::daemon
