#include "bench/workload.h"

#include <cstdio>
#include <cstdlib>
#include <map>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/memory_nodes.h"
#include "core/pod_builder.h"

namespace alignd::bench {
namespace {

using memorymanager::kGi;

constexpr char kGpuName[] = "vendor.com/gpu";
constexpr char kNicName[] = "vendor.com/nic";
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr int kHugeGiPerNode = 8;

[[noreturn]] void Die(const std::string& why) {
  std::fprintf(stderr, "alignd_bench: %s\n", why.c_str());
  std::abort();
}

Machine MakeBenchMachine(const WorkloadSpec& spec) {
  const Machine plain = MakeMachine(spec.machine);
  if (spec.numa_nodes != 0 && spec.numa_nodes != plain.numa_count()) {
    Die(spec.machine + " has " + std::to_string(plain.numa_count()) + " NUMA nodes, not " +
        std::to_string(spec.numa_nodes));
  }
  std::vector<NumaNode> nodes = plain.numa();
  for (NumaNode& node : nodes) {
    if (spec.memoryless_from >= 0 && node.id >= spec.memoryless_from) node.memory_bytes = 0;
    if (node.memory_bytes == 0) continue;
    node.hugepages[kHugePageBytes] = kHugeGiPerNode * kGi / kHugePageBytes;
  }
  return MachineOrDie(Machine::Make(plain.cpu_rows(), std::move(nodes)), spec.machine);
}

bool Asks(const WorkloadSpec& spec, Asked what) {
  return spec.resources >= static_cast<int>(what) || (what == Asked::kHugePages && spec.huge_pages);
}

KubeletConfig MakeConfig(const WorkloadSpec& spec) {
  KubeletConfig config;
  if (Asks(spec, Asked::kMemory)) config = memorymanager::Reserving({{0, "1Gi"}});
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.topology_manager_policy = spec.policy;
  return config;
}

devicemanager::Resource DevicesOn(const Machine& machine, int per_node, const std::string& prefix) {
  std::map<std::string, std::vector<int64_t>> devices;
  for (const int position : machine.numa_with_cpus()) {
    for (int i = 0; i < per_node; ++i) {
      devices[prefix + std::to_string(devices.size())] = {machine.NumaId(position)};
    }
  }
  return devicemanager::Registered(devices);
}

Pod MakeAskingPod(const WorkloadSpec& spec, const Machine& machine) {
  const int more = spec.nodes_needed - 1;  // whole nodes, and a part of one more
  const NumaNode& node = machine.numa().front();
  const int cpus = machine.CpusInNuma(0).Count();
  const auto memory_gi = static_cast<int>(node.memory_bytes / kGi) - kHugeGiPerNode;
  std::map<std::string, std::string> amounts = {{"cpu", std::to_string(more * cpus + 2)}};
  if (Asks(spec, Asked::kMemory)) amounts["memory"] = std::to_string(more * memory_gi + 1) + "Gi";
  const std::string devices = std::to_string(more * spec.devices_per_node + 1);
  if (Asks(spec, Asked::kGpu)) amounts[kGpuName] = devices;
  if (Asks(spec, Asked::kNic)) amounts[kNicName] = devices;
  if (Asks(spec, Asked::kHugePages)) {
    amounts["hugepages-2Mi"] = std::to_string(more * kHugeGiPerNode + 1) + "Gi";
  }
  return GuaranteedPod("measured", {App("app", amounts)});
}

admission::Admission AdmitPod(const Workload& workload, const Pod& pod) {
  admission::Admission admission =
      admission::Admit(workload.node, workload.state, pod, devicemanager::NoPreference);
  if (admission.refusal) Die("pod " + pod.uid + " is refused: " + admission.refusal->message);
  return admission;
}

}  // namespace

Workload MakeWorkload(const WorkloadSpec& spec) {
  Machine machine = MakeBenchMachine(spec);
  Pod pod = MakeAskingPod(spec, machine);
  Result<admission::Node> node = admission::Node::Make(std::move(machine), MakeConfig(spec));
  if (!node.ok()) Die(node.error().message);
  admission::NodeState state = admission::NodeState::Initial(*node);
  state.devices.resources[kGpuName] = DevicesOn(node->machine, spec.devices_per_node, "gpu");
  state.devices.resources[kNicName] = DevicesOn(node->machine, spec.devices_per_node, "nic");
  return {*std::move(node), std::move(state), std::move(pod)};
}

void PlacePods(Workload& workload, int pods) {
  for (int i = 0; i < pods; ++i) {
    // As long as names from Kubernetes.
    char uid[] = "3f0a1c5e-7d2b-4e8f-9a6c-000000000000";
    std::snprintf(uid + 24, sizeof uid - 24, "%012d", i);
    std::map<std::string, std::string> amounts = {{"cpu", std::to_string(1 + i % 2)},
                                                  {"memory", "256Mi"}};
    if (i % 2 == 0) amounts[kGpuName] = "1";
    const Pod pod = GuaranteedPod(uid, {App("app", amounts)});
    workload.state = AdmitPod(workload, pod).next;
  }
}

topologymanager::TopologyHint AdmitOrDie(const Workload& workload) {
  return AdmitPod(workload, workload.pod).decisions.front().affinity.value();
}

}  // namespace alignd::bench
