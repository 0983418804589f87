#include "daemon/start_warnings.h"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <utility>

#include "alignd/config/config_problem.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/resource_name.h"

namespace alignd::daemon {
namespace {

namespace fs = std::filesystem;

// Whether both are one existing directory, or spelt the same.
bool IsSameDirectory(const fs::path& a, const fs::path& b) {
  std::error_code fault;
  if (fs::equivalent(a, b, fault)) return true;
  const auto plain = [](const fs::path& path) {
    return (fs::absolute(path) / "").lexically_normal();
  };
  return plain(a) == plain(b);
}

class Warnings {
 public:
  explicit Warnings(const Options& options) : options_(options) {}

  void OfField(std::string field, std::string_view value, std::string message, std::string remedy) {
    found_.push_back({options_.config,
                      std::move(field),
                      std::string(value),
                      {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)}});
  }

  void OfFlag(std::string flag, const fs::path& value, std::string message, std::string remedy) {
    found_.push_back({"",
                      std::move(flag),
                      value.string(),
                      {ErrorCode::kInvalidArgument, std::move(message), std::move(remedy)}});
  }

  std::vector<StartProblem> Take() { return std::move(found_); }

 private:
  const Options& options_;
  std::vector<StartProblem> found_;
};

void AddPolicies(const admission::Node& node, Warnings& warnings) {
  const KubeletConfig& config = node.config;
  const bool aligns = config.topology_manager_policy != TopologyManagerPolicy::kNone ||
                      !PodPoliciesAnywhere(config).empty();
  if (!node.cpu && !node.memory && !aligns) {
    warnings.OfField("cpuManagerPolicy", ToString(config.cpu_manager_policy),
                     "all policies are none: alignd assigns no CPUs and no memory, and aligns "
                     "nothing",
                     "set cpuManagerPolicy to \"static\" with reservedSystemCPUs, and "
                     "topologyManagerPolicy to \"best-effort\", \"best-attainable\", "
                     "\"restricted\" or \"single-numa-node\"");
  }
  if (config.topology_manager_policy == TopologyManagerPolicy::kSingleNumaNode && !node.cpu) {
    warnings.OfField("topologyManagerPolicy", ToString(config.topology_manager_policy),
                     "single-numa-node without the static CPU policy: containers get no exclusive "
                     "CPUs, and run on the CPUs of all NUMA nodes",
                     "set cpuManagerPolicy to \"static\" with reservedSystemCPUs");
  }
  if (node.cpu && node.cpu->reserved == node.machine.cpus()) {
    const bool listed = !config.reserved_system_cpus.empty();
    warnings.OfField(listed ? "reservedSystemCPUs" : "kubeReserved", node.cpu->reserved.ToString(),
                     "all CPUs of the machine are reserved: no container can get exclusive CPUs",
                     "reserve fewer CPUs");
  }
}

// Containers that request them never wait for a device plugin. Not refused, so that a node whose
// flag has such names starts after an update.
void AddNotDevices(const Options& options, Warnings& warnings) {
  for (const std::string& name : options.not_devices.value_or(std::set<std::string>())) {
    const Result<Done> checked = CheckNotDevice(name);
    if (checked.ok()) continue;
    warnings.OfFlag("--not-devices", name, checked.error().message + ", and has no effect",
                    "remove it; " + checked.error().remedy);
  }
}

void AddDirectories(const Options& options, Warnings& warnings) {
  if (IsSameDirectory(options.state_dir, options.kubelet_dir)) {
    warnings.OfFlag("--state-dir", options.state_dir,
                    "this is the kubelet's own directory: alignd and the kubelet overwrite each "
                    "other's cpu_manager_state and memory_manager_state",
                    "give --state-dir a directory of its own, such as /var/lib/alignd");
  }
  if (IsSameDirectory(options.DevicePluginDir(), options.kubelet_device_plugin_dir)) {
    warnings.OfFlag("--device-plugin-dir", options.DevicePluginDir(),
                    "this is the kubelet's own directory: alignd and the kubelet overwrite each "
                    "other's kubelet.sock and kubelet_internal_checkpoint",
                    "give --device-plugin-dir a directory of its own");
  }
}

void AddCgroups(const Options& options, Warnings& warnings) {
  const fs::path& root = options.cgroup_root;
  std::error_code fault;
  if (fs::exists(root / "cgroup.controllers", fault)) return;  // version 2
  if (fs::is_directory(root / "cpuset", fault)) return;        // version 1
  warnings.OfFlag("--cgroup-root", root,
                  fs::is_directory(root, fault)
                      ? "no cgroups are mounted there: neither cgroup.controllers (version 2) nor "
                        "cpuset (version 1) exists"
                      : "this directory does not exist",
                  "give --cgroup-root the mount point of the cgroups; without it, alignd cannot "
                  "check which CPUs containers really have, and cpusets change through the "
                  "runtime only");
}

}  // namespace

std::vector<StartProblem> FindPolicyWarnings(const Options& options, const admission::Node& node) {
  Warnings warnings(options);
  AddPolicies(node, warnings);
  AddNotDevices(options, warnings);
  return warnings.Take();
}

std::vector<StartProblem> FindGateWarnings(const Options& options, const KubeletConfig& config) {
  const std::optional<Error> unknown = UnknownFeatureGates(config);
  if (!unknown) return {};
  return {{options.config, "featureGates", "", *unknown}};
}

std::vector<StartProblem> FindDirectoryWarnings(const Options& options) {
  Warnings warnings(options);
  AddDirectories(options, warnings);
  AddCgroups(options, warnings);
  return warnings.Take();
}

void LogWarnings(const std::vector<StartProblem>& warnings) {
  for (const StartProblem& warning : warnings) spdlog::warn("{}", warning.AsError().Text());
}

}  // namespace alignd::daemon
