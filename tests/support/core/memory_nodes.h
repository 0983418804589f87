// Machines with memory, for the tests of the memory manager.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "alignd/memorymanager/static_policy.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::memorymanager {

inline constexpr uint64_t kGi = uint64_t{1} << 30;

inline topologymanager::TopologyHint OnNodes(uint64_t mask_bits, bool preferred = false) {
  return {.affinity = NumaMask::FromBits(mask_bits), .preferred = preferred};
}

inline topologymanager::TopologyHint Anywhere(bool preferred = false) {
  return {.affinity = std::nullopt, .preferred = preferred};
}

// A configuration that reserves this much memory on NUMA nodes by id.
inline KubeletConfig Reserving(const std::vector<std::pair<int, std::string>>& by_node) {
  KubeletConfig config;
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  for (const auto& [node, amount] : by_node) {
    config.reserved_memory.push_back({.numa_node = node, .limits = Amounts({{"memory", amount}})});
    config.system_reserved["memory"] += Amounts({{"memory", amount}}).at("memory");
  }
  return config;
}

// A machine with one CPU per node.
inline Machine MachineOf(std::vector<NumaNode> nodes) {
  std::vector<Cpu> cpus;
  for (const NumaNode& node : nodes) {
    const int cpu = static_cast<int>(cpus.size());
    cpus.push_back({.cpu = cpu, .core = cpu, .socket = cpu, .numa = node.id, .uncore = cpu});
  }
  return MachineOrDie(Machine::Make(std::move(cpus), std::move(nodes)), "MachineOf");
}

// A machine, its policy, and the assigned memory.
struct MemoryNode {
  Machine machine;
  StaticPolicy policy;
  MemoryState state;

  static MemoryNode Make(Machine machine, const KubeletConfig& config) {
    Result<StaticPolicy> policy = MakeStaticPolicy(machine, config);
    if (!policy.ok()) {
      std::fprintf(stderr, "MemoryNode: %s\n", policy.error().message.c_str());
      std::abort();
    }
    MemoryState initial = InitialState(machine, *policy);
    return {std::move(machine), *std::move(policy), std::move(initial)};
  }

  // Allocates for one container of the pod. Returns an empty text, or the refusal; then nothing
  // changes.
  std::string Give(const Pod& pod, const std::string& container,
                   const topologymanager::TopologyHint& affinity) {
    const auto asking = std::ranges::find(pod.containers, container, &Container::name);
    MemoryState next = state;
    const Placement placement = Allocate(machine, policy, pod, *asking, affinity, next);
    if (placement.refusal) return placement.refusal->message;
    state = std::move(next);
    return "";
  }

  std::vector<std::string> Broken() const { return BrokenInvariants(machine, policy, state); }

  // The container's blocks: "memory 8Gi on 0,1; hugepages-2Mi 1Gi on 0,1".
  std::string BlocksOf(const std::string& pod, const std::string& container) const {
    const std::vector<Block>* blocks = state.Find({pod, container});
    if (blocks == nullptr) return "";
    std::string text;
    for (const Block& block : *blocks) {
      if (!text.empty()) text += "; ";
      text += block.type + " " + std::to_string(block.size / kGi) + "Gi on ";
      for (size_t i = 0; i < block.numa_affinity.size(); ++i) {
        text += (i == 0 ? "" : ",") + std::to_string(block.numa_affinity[i]);
      }
    }
    return text;
  }

  // GiB of memory reserved on a node.
  uint64_t ReservedGi(int id, const std::string& type = "memory") const {
    return state.machine.at(id).tables.at(type).reserved / kGi;
  }
};

// Nodes 0 and 1 with 10 GiB, node 2 with 12 GiB of which 2 GiB are 2 MiB pages; 1 GiB of node 0 is
// reserved for the system.
inline MemoryNode ThreeNodes() {
  std::vector<NumaNode> nodes = PlainNumaNodes(3, 10 * kGi);
  nodes[2].memory_bytes = 12 * kGi;
  for (NumaNode& node : nodes) node.hugepages[uint64_t{2} << 20] = node.id == 2 ? 1024 : 0;
  return MemoryNode::Make(MachineOf(std::move(nodes)), Reserving({{0, "1Gi"}}));
}

}  // namespace alignd::memorymanager
