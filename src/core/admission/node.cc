#include "alignd/admission/node.h"

#include <utility>

#include "alignd/cpumanager/policy_options.h"

namespace alignd::admission {

Result<Node> Node::Make(Machine machine, KubeletConfig config) {
  // Before any manager, whatever the policies are. Source: kubelet cmd/kubelet/app/server.go,
  // getReservedCPUs.
  const Result<CpuSet> reserved = cpumanager::ReservedSystemCpus(machine, config);
  if (!reserved.ok()) return reserved.error();
  // The kubelet makes its managers in this order; the first error is returned.
  // Source: kubelet pkg/kubelet/cm/container_manager_linux.go, NewContainerManager.
  Result<topologymanager::Policy> topology = topologymanager::Policy::Make(machine, config);
  if (!topology.ok()) return topology.error();
  std::optional<cpumanager::StaticPolicy> cpu;
  if (config.cpu_manager_policy == CpuManagerPolicy::kStatic) {
    Result<cpumanager::StaticPolicy> made = cpumanager::MakeStaticPolicy(machine, config);
    if (!made.ok()) return made.error();
    cpu = *std::move(made);
  } else {
    const auto options = cpumanager::ParsePolicyOptions(config, machine);  // none is allowed
    if (!options.ok()) {
      return Error{options.error().code, options.error().message,
                   "remove cpuManagerPolicyOptions or set cpuManagerPolicy to \"static\""};
    }
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
              .memory = std::move(memory)};
}

}  // namespace alignd::admission
