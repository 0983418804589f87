// Command line of alignd-events.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace CLI {
class App;
}  // namespace CLI

namespace alignd::events {

// A value.
struct EventsOptions {
  std::filesystem::path kubeconfig = "/etc/kubernetes/kubelet.conf";
  bool in_cluster = false;  // the pod's service account instead
  std::string control_socket;
  std::string node_name;  // of the Node object
  std::chrono::seconds interval{2};
  bool publishes_topology = false;       // the NodeResourceTopology object too
  bool wakes_scheduler = false;          // by an annotation of the Node
  bool koordinator_annotations = false;  // of that object
  bool kai_numa_placement = false;       // what its pods have on which NUMA node
  bool no_events = false;
  std::string log_level = "info";
  std::string log_format = "auto";
};

// nullopt if the program ends at once: after --help and --version with `exit_status` 0, else 2.
std::optional<EventsOptions> ParseEventsOptions(int argc, const char* const* argv,
                                                int& exit_status);

// Calls `use` with the description of the command line.
void DescribeEventsOptions(const std::function<void(const CLI::App&)>& use);

}  // namespace alignd::events
