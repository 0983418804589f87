// Command line of alignd-extender.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

#include "cli/fleet_input.h"
#include "extender/extender.h"
#include "extender/extender_server.h"
#include "extender/leader_elector.h"
#include "metrics/listen_address.h"

namespace CLI {
class App;
}  // namespace CLI

namespace alignd::extender {

// A value.
struct ExtenderOptions {
  cli::FleetSources sources;  // without nodes: the API server has them
  std::string kubeconfig;
  bool in_cluster = false;
  std::chrono::seconds stale_after{180};
  metrics::ListenAddress listen;
  TlsFiles tls;
  Extender::Settings settings;
  bool elects_leader = false;
  LeaderElector::Settings election;  // without the identity
  std::string endpoint_slice;        // empty: the leader is not announced
  std::string endpoint_address;
  std::string log_level = "info";
  std::string log_format = "auto";
};

// nullopt if the program ends at once: after --help and --version with `exit_status` 0, else 2.
std::optional<ExtenderOptions> ParseExtenderOptions(int argc, const char* const* argv,
                                                    int& exit_status);

// Calls `use` with the description of the command line.
void DescribeExtenderOptions(const std::function<void(const CLI::App&)>& use);

}  // namespace alignd::extender
