#include "daemon/start_line.h"

#include <cstddef>
#include <cstdint>
#include <map>

#include "alignd/base/counted.h"
#include "daemon/command_line.h"
#include "reconcile/assigned_containers.h"

namespace alignd::daemon {
namespace {

std::string DescribeMachine(const Machine& machine) {
  uint64_t bytes = 0;
  for (const NumaNode& numa : machine.numa()) bytes += numa.memory_bytes;
  return Counted(machine.cpus().Count(), "CPU") + ", " + Counted(machine.cores().size(), "core") +
         ", " + Counted(machine.sockets().size(), "socket") + ", " +
         Counted(machine.numa_count(), "NUMA node") + ", " + std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

std::string DescribePolicy(std::string_view policy,
                           const std::map<std::string, std::string>& options) {
  std::string text(policy);
  for (const auto& [name, value] : options) text += " " + name + "=" + value;
  return text;
}

std::string DescribeRestored(const admission::NodeState& restored) {
  size_t containers = 0;
  size_t cpus = 0;
  for (const auto& [uid, pod] : restored.cpu.assignments) {
    for (const auto& [name, set] : pod) cpus += static_cast<size_t>(set.Count());
  }
  for (const ContainerKey& key : reconcile::AssignedContainers(restored)) {
    containers += key.container.empty() ? 0 : 1;
  }
  return Counted(admission::PodsIn(restored).size(), "pod") + " with " +
         Counted(containers, "container") + " and " + Counted(cpus, "exclusive CPU");
}

std::string StartLine(const Options& options, const admission::Node& node,
                      const admission::NodeState& restored) {
  const KubeletConfig& config = node.config;
  const std::string reserved = node.cpu ? node.cpu->reserved.ToString() : "";
  return VersionOf("alignd") + " starts | cpuManagerPolicy " +
         DescribePolicy(ToString(config.cpu_manager_policy), config.cpu_manager_policy_options) +
         " | memoryManagerPolicy " + std::string(ToString(config.memory_manager_policy)) +
         " | topologyManagerPolicy " +
         DescribePolicy(ToString(config.topology_manager_policy),
                        config.topology_manager_policy_options) +
         ", scope " + std::string(ToString(config.topology_manager_scope)) + " | compatibility " +
         std::string(ToString(config.compatibility)) + " | reserved CPUs " +
         (reserved.empty() ? "none" : reserved) + " | machine " + DescribeMachine(node.machine) +
         " | runtime " + options.runtime_endpoint + " | configuration " +
         (options.config.empty() ? "none" : options.config.string()) + " | mirror " +
         (options.mirror ? "on" : "off") + " | restored " + DescribeRestored(restored);
}

}  // namespace alignd::daemon
