// Command line and paths.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/config/on_refusal.h"
#include "allocation/bad_state.h"
#include "allocation/cpu_resizes.h"
#include "mirror/binding_modes.h"

namespace CLI {
class App;
}  // namespace CLI

namespace alignd::daemon {

// A flag or a variable of the environment, for `alignctl config`.
struct GivenOption {
  std::string name;    // "--listen", "NOTIFY_SOCKET"
  std::string value;   // that applies
  std::string source;  // "default", "flag" or "environment"
};

// The options of the command line. A value.
struct Options {
  std::filesystem::path config;  // KubeletConfiguration; empty: the defaults
  std::string listen = "unix:///run/alignd/alignd.sock";
  std::string control_socket;  // empty: control.sock beside the socket of `listen`
  std::string runtime_endpoint = "unix:///run/containerd/containerd.sock";
  std::filesystem::path state_dir = "/var/lib/alignd";
  allocation::OnBadState on_bad_state = allocation::OnBadState::kRebuild;
  std::filesystem::path device_plugin_dir;  // empty: device-plugins in the state directory
  // The kubelet's local Pods API; empty: not used.
  std::string pods_api_endpoint = "unix:///var/lib/kubelet/pods-api/pods-api.sock";
  // Whether annotations may ask for devices. Overrides the configuration's.
  std::optional<bool> annotated_extended_resources;
  std::filesystem::path plugins_registry;  // empty: plugins_registry in the state directory
  std::filesystem::path root = "/";        // has the sys/ and proc/ of the machine
  std::filesystem::path node;              // a scenario's `node` instead of this machine
  // How alignd binds devices that the kubelet allocates; nullopt: the kubelet allocates none.
  std::optional<mirror::BindingModes> mirror;
  std::filesystem::path kubelet_plugins_registry = "/var/lib/kubelet/plugins_registry";
  // Not below `kubelet_dir`: the kubelet has this path compiled in.
  std::filesystem::path kubelet_device_plugin_dir = "/var/lib/kubelet/device-plugins";
  std::chrono::milliseconds kubelet_grace{60'000};   // until KubeletNotAttached is reported
  std::chrono::milliseconds mirror_patience{5'000};  // until the kubelet accepts a resource
  std::optional<Compatibility> compatibility;        // overrides the configuration's
  std::optional<std::set<PodPolicy>> pod_policies;   // the same
  std::filesystem::path cgroup_root = "/sys/fs/cgroup";
  // Checked for a conflicting CPU manager. The kubelet records prepared claims in it.
  std::filesystem::path kubelet_dir = "/var/lib/kubelet";
  // CDI specifications; those of a later directory override those of an earlier one. Empty: CPUs
  // and memory do not follow devices that DRA has allocated.
  std::vector<std::string> cdi_spec_dirs = {"/etc/cdi", "/var/run/cdi"};
  bool keep_pod_cpu_quota = false;  // also of pods with exclusive CPUs
  allocation::CpuResizes resize_exclusive_cpus = allocation::CpuResizes::kAll;  // in place
  OnRefusal on_refusal;            // of pods that do not fit now
  std::string may_move = "never";  // at SIGHUP, containers with exclusive CPUs; or if-needed
  std::chrono::milliseconds runtime_timeout{10'000};
  std::chrono::milliseconds plugin_timeout{30'000};  // Allocate
  std::chrono::milliseconds plugin_connect_timeout{10'000};
  std::chrono::milliseconds plugin_preference_timeout{10'000};
  std::chrono::milliseconds plugin_pre_start_timeout{30'000};
  std::chrono::milliseconds plugin_grace{300'000};
  std::chrono::milliseconds plugin_patience{300'000};
  // Extended resources that no device plugin serves. Overrides the configuration's.
  std::optional<std::set<std::string>> not_devices;
  // Runtime handlers whose containers do not run in cgroups of their own; a * at the end stands for
  // any text. Overrides the configuration's.
  std::optional<std::set<std::string>> shared_pool_handlers;
  std::string log_level = "info";
  std::string log_format = "auto";  // auto, journal, text or json
  // Where metrics and health are served; `off`: nowhere. The port is none that Kubernetes, its
  // exporters (9100 to 9999), node ports (30000 to 32767) or the kernel (32768 and above) use.
  std::string metrics_address = "127.0.0.1:10271";

  bool check = false;                 // do not start: show what a start would find
  std::string check_output = "text";  // text or json

  // Every flag, and the variables that are set; empty if nothing was parsed.
  std::vector<GivenOption> given;

  std::string pod_resources_socket;  // empty: pod-resources.sock beside the socket of `listen`

  std::string ControlSocket() const {
    return control_socket.empty() ? listen.substr(0, listen.rfind('/') + 1) + "control.sock"
                                  : control_socket;
  }
  std::string PodResourcesSocket() const {
    return pod_resources_socket.empty()
               ? listen.substr(0, listen.rfind('/') + 1) + "pod-resources.sock"
               : pod_resources_socket;
  }
  std::filesystem::path DevicePluginDir() const {
    return device_plugin_dir.empty() ? state_dir / "device-plugins" : device_plugin_dir;
  }
  std::filesystem::path PluginsRegistry() const {
    return plugins_registry.empty() ? state_dir / "plugins_registry" : plugins_registry;
  }
};

// Calls `use` with the description of all options, for manual pages and completions.
void DescribeOptions(const std::function<void(const CLI::App&)>& use);

// The exit status for a wrong command line. With --check it is 1: alignd would not start.
inline constexpr int kWrongCommandLine = 2;

// Parses the command line. nullopt: help or an error was printed; the program is to end with
// `exit_status`.
std::optional<Options> ParseOptions(int argc, const char* const* argv, int& exit_status);

// The options of a command line that is not this program's, without the name of the program, such
// as that of alignd's unit. Errors: kInvalidArgument: alignd would not run with it.
Result<Options> OptionsOf(const std::vector<std::string>& words);

// --listen is another socket than --runtime-endpoint: else alignd would replace the runtime's
// socket and forward to itself. Nor may the metrics replace one of them. Errors: kInvalidArgument.
Result<Done> RequireOwnSockets(const Options& options);

}  // namespace alignd::daemon
