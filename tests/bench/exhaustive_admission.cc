#include "bench/exhaustive_admission.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "core/hint_oracle.h"

namespace alignd::bench {
namespace {

using topologymanager::HintList;

// One resource: the requested amount, and the amount on each NUMA node, by position.
struct Supply {
  uint64_t wanted = 0;
  std::vector<uint64_t> free;
  std::vector<uint64_t> capacity;  // of an empty node
};

uint64_t SumOver(const std::vector<uint64_t>& amounts, NumaMask nodes) {
  uint64_t sum = 0;
  for (const int node : nodes) sum += amounts[static_cast<size_t>(node)];
  return sum;
}

// All sets of all nodes, smaller ones first.
// Source: kubelet pkg/kubelet/cm/topologymanager/bitmask/bitmask.go, IterateBitMasks.
template <typename Visit>
void ForEachMask(int nodes, Visit visit) {
  for (int size = 1; size <= nodes; ++size) {
    for (uint64_t bits = 1; bits <= NumaMask::FirstNodes(nodes).bits(); ++bits) {
      if (std::popcount(bits) == size) visit(NumaMask::FromBits(bits));
    }
  }
}

HintList HintsOf(const Supply& supply, int nodes) {
  int smallest = nodes;
  HintList hints;
  ForEachMask(nodes, [&](NumaMask set) {
    if (SumOver(supply.capacity, set) >= supply.wanted) smallest = std::min(smallest, set.Count());
    if (SumOver(supply.free, set) < supply.wanted) return;
    hints.push_back({.affinity = set, .preferred = false});
  });
  for (auto& hint : hints) hint.preferred = hint.affinity->Count() == smallest;
  return hints;
}

Supply CpuSupply(const Workload& workload, uint64_t wanted) {
  Supply supply{.wanted = wanted, .free = {}, .capacity = {}};
  const Machine& machine = workload.node.machine;
  for (const int node : machine.all_numa()) {
    const CpuSet& cpus = machine.CpusInNuma(node);
    const int free = cpus.CountCommon(workload.state.cpu.default_set - workload.node.cpu->reserved);
    supply.free.push_back(static_cast<uint64_t>(free));
    supply.capacity.push_back(static_cast<uint64_t>(cpus.Count()));
  }
  return supply;
}

Supply MemorySupply(const Workload& workload, const std::string& type, uint64_t wanted) {
  Supply supply{.wanted = wanted, .free = {}, .capacity = {}};
  for (const auto& [id, node] : workload.state.memory.machine) {
    const auto table = node.tables.find(type);
    const bool has = table != node.tables.end();
    supply.free.push_back(has ? table->second.free : 0);
    supply.capacity.push_back(has ? table->second.allocatable : 0);
  }
  return supply;
}

Supply DeviceSupply(const Workload& workload, const devicemanager::Resource& resource,
                    uint64_t wanted) {
  const Machine& machine = workload.node.machine;
  std::vector<uint64_t> devices(static_cast<size_t>(machine.numa_count()));
  for (const auto& [id, device] : resource.devices) {
    for (const int node : machine.MaskOfIds(device.numa)) ++devices[static_cast<size_t>(node)];
  }
  return {.wanted = wanted, .free = devices, .capacity = devices};
}

}  // namespace

double Combinations(int nodes, int resources) { return std::pow(std::exp2(nodes) - 1, resources); }

topologymanager::TopologyHint AffinityByTryingAll(const Workload& workload) {
  const int nodes = workload.node.machine.numa_count();
  std::vector<HintList> lists;
  for (const auto& [name, amount] : workload.pod.containers.front().resources.limits) {
    const auto wanted = static_cast<uint64_t>(amount.Value());
    const auto& devices = workload.state.devices.resources;
    if (name == "cpu") {
      lists.push_back(HintsOf(CpuSupply(workload, wanted), nodes));
    } else if (const auto resource = devices.find(name); resource != devices.end()) {
      lists.push_back(HintsOf(DeviceSupply(workload, resource->second, wanted), nodes));
    } else {
      lists.push_back(HintsOf(MemorySupply(workload, name, wanted), nodes));
    }
  }
  const topologymanager::Policy& policy = workload.node.topology;
  return topologymanager::MergeByTryingAll(policy.numa(), lists, policy.rules());
}

}  // namespace alignd::bench
