#include "alignd/admission/node.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/config_problems.h"
#include "alignd/admission/own_policy.h"
#include "alignd/cpumanager/config_problems.h"
#include "alignd/memorymanager/config_problems.h"
#include "alignd/topologymanager/config_problems.h"
#include "core/admission/own_defaults.h"

namespace alignd::admission {

std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config) {
  std::vector<ConfigProblem> problems = topologymanager::FindProblems(machine, config);
  std::vector<ConfigProblem> of_cpus = cpumanager::FindProblems(machine, config);
  // reservedSystemCPUs is read before any manager is made, whatever the policies are.
  // Source: kubelet cmd/kubelet/app/server.go, getReservedCPUs.
  if (!cpumanager::ReservedSystemCpus(machine, config).ok()) {
    problems.insert(problems.begin(), std::move(of_cpus.front()));
    of_cpus.erase(of_cpus.begin());
  }
  problems.insert(problems.end(), of_cpus.begin(), of_cpus.end());
  if (config.memory_manager_policy == MemoryManagerPolicy::kStatic) {
    const std::vector<ConfigProblem> of_memory = memorymanager::FindProblems(machine, config);
    problems.insert(problems.end(), of_memory.begin(), of_memory.end());
  }
  cpumanager::PolicyOptions options;
  cpumanager::FindOptionProblems(machine, config, options);  // these are among `of_cpus`
  const std::vector<ConfigProblem> of_defaults = FindDefaultProblems(config, options);
  problems.insert(problems.end(), of_defaults.begin(), of_defaults.end());
  return problems;
}

std::vector<ConfigProblem> FindProblemsOfValues(const Machine& machine, const KubeletConfig& config,
                                                const std::set<std::string>& wrong) {
  std::vector<ConfigProblem> problems;
  const auto add = [&problems](const std::vector<ConfigProblem>& found) {
    problems.insert(problems.end(), found.begin(), found.end());
  };
  const Result<CpuSet> reserved = cpumanager::ReservedSystemCpus(machine, config);
  if (!reserved.ok()) {
    problems.push_back({"reservedSystemCPUs", config.reserved_system_cpus, reserved.error()});
  }
  // Alone: whether options go together can depend on what could not be read.
  if (config.topology_manager_policy != TopologyManagerPolicy::kNone ||
      wrong.contains("topologyManagerPolicy")) {
    for (const auto& option : config.topology_manager_policy_options) {
      KubeletConfig alone;
      alone.topology_manager_policy = TopologyManagerPolicy::kRestricted;
      alone.topology_manager_policy_options = {option};
      add(topologymanager::FindProblems(machine, alone));
    }
  }
  if (config.cpu_manager_policy == CpuManagerPolicy::kStatic ||
      wrong.contains("cpuManagerPolicy")) {
    for (const auto& option : config.cpu_manager_policy_options) {
      KubeletConfig alone;
      alone.cpu_manager_policy = CpuManagerPolicy::kStatic;
      alone.cpu_manager_policy_options = {option};
      cpumanager::PolicyOptions options;
      add(cpumanager::FindOptionProblems(machine, alone, options));
    }
  }
  if (config.memory_manager_policy == MemoryManagerPolicy::kStatic ||
      wrong.contains("memoryManagerPolicy")) {
    add(memorymanager::FindUnknownNodes(machine, config));
  }
  return problems;
}

Result<Node> Node::Make(Machine machine, KubeletConfig config) {
  const std::vector<ConfigProblem> problems = FindProblems(machine, config);
  if (!problems.empty()) return problems.front().error;
  Result<topologymanager::Policy> topology = topologymanager::Policy::Make(machine, config);
  if (!topology.ok()) return topology.error();
  std::vector<topologymanager::Policy> for_pods;
  if (PodPoliciesAnywhere(config).contains(PodPolicy::kNumaTopologyPolicy)) {
    for (const auto policy : {NumaTopologyPolicy::kBestEffort, NumaTopologyPolicy::kRestricted,
                              NumaTopologyPolicy::kSingleNumaNode}) {
      KubeletConfig chosen = config;
      chosen.topology_manager_policy = ManagerPolicyOf(policy);
      Result<topologymanager::Policy> made = topologymanager::Policy::Make(machine, chosen);
      if (!made.ok()) return made.error();
      for_pods.push_back(*std::move(made));
    }
  }
  std::optional<cpumanager::StaticPolicy> cpu;
  if (config.cpu_manager_policy == CpuManagerPolicy::kStatic) {
    Result<cpumanager::StaticPolicy> made = cpumanager::MakeStaticPolicy(machine, config);
    if (!made.ok()) return made.error();
    cpu = *std::move(made);
  }
  std::optional<memorymanager::StaticPolicy> memory;
  if (config.memory_manager_policy == MemoryManagerPolicy::kStatic) {
    Result<memorymanager::StaticPolicy> made = memorymanager::MakeStaticPolicy(machine, config);
    if (!made.ok()) return made.error();
    memory = *std::move(made);
  }
  return Node{.machine = std::move(machine),
              .config = std::move(config),
              .topology = *std::move(topology),
              .cpu = std::move(cpu),
              .memory = std::move(memory),
              .for_pods = std::move(for_pods)};
}

}  // namespace alignd::admission
