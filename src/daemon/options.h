// Command line and paths.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>

#include "alignd/config/kubelet_config.h"

namespace alignd::daemon {

// What the command line says. A value.
struct Options {
  std::filesystem::path config;  // KubeletConfiguration; empty: the defaults
  std::string listen = "unix:///run/alignd/alignd.sock";
  std::string control_socket;  // empty: control.sock beside the socket of `listen`
  std::string runtime_endpoint = "unix:///run/containerd/containerd.sock";
  std::filesystem::path state_dir = "/var/lib/alignd";
  std::filesystem::path device_plugin_dir;     // empty: device-plugins in the state directory
  std::filesystem::path root = "/";            // holds the sys/ and proc/ of the machine
  std::filesystem::path node;                  // a scenario's `node` instead of this machine
  std::optional<Compatibility> compatibility;  // overrides the configuration's
  std::chrono::milliseconds runtime_timeout{10'000};
  std::chrono::milliseconds plugin_timeout{30'000};
  std::string log_level = "info";

  std::string ControlSocket() const {
    return control_socket.empty() ? listen.substr(0, listen.rfind('/') + 1) + "control.sock"
                                  : control_socket;
  }
  std::filesystem::path DevicePluginDir() const {
    return device_plugin_dir.empty() ? state_dir / "device-plugins" : device_plugin_dir;
  }
};

// Parses the command line. nullopt: the program is to end with `exit_status` (help was printed, or
// the fault).
std::optional<Options> ParseOptions(int argc, const char* const* argv, int& exit_status);

}  // namespace alignd::daemon
