#include "alignd/noderesourcetopology/zones.h"

#include <algorithm>
#include <set>

#include "alignd/admission/assignment.h"
#include "alignd/cpumanager/node_shares.h"

namespace alignd::noderesourcetopology {
namespace {

// CPUs of all zones.
struct CpuSets {
  CpuSet unusable;  // reserved, or offline: allocated to no further container
  CpuSet taken;     // not free
};

CpuSets CpuSetsOf(const admission::Node& node, const admission::NodeState& state) {
  if (!node.cpu) return {state.cpu.offline, {}};
  const CpuSet free =
      state.cpu.default_set - cpumanager::HeldBack(node.machine, *node.cpu, state.cpu);
  return {state.cpu.offline | node.cpu->reserved, node.machine.cpus() - free};
}

Amount CpusOf(const CpuSet& zone, const CpuSets& sets) {
  const auto count = [](const CpuSet& set) { return static_cast<uint64_t>(set.Count()); };
  const CpuSet usable = zone - sets.unusable;
  return {count(zone), count(usable), count(usable - sets.taken)};
}

// Of a node whose memory is not managed.
void AddUnmanagedMemory(const NumaNode& numa, std::map<std::string, Amount>& resources) {
  uint64_t in_huge_pages = 0;
  for (const auto& [page, pages] : numa.hugepages) {
    const uint64_t bytes = page * pages;
    in_huge_pages += bytes;
    if (bytes > 0) resources[memorymanager::HugePageType(page)] = {bytes, bytes, bytes};
  }
  const uint64_t rest = numa.memory_bytes > in_huge_pages ? numa.memory_bytes - in_huge_pages : 0;
  if (numa.memory_bytes > 0) resources["memory"] = {numa.memory_bytes, rest, rest};
}

void AddMemoryOf(const memorymanager::NumaMemory& numa, std::map<std::string, Amount>& resources) {
  for (const auto& [type, table] : numa.tables) {
    if (table.total > 0) resources[type] = {table.total, table.allocatable, table.free};
  }
}

void AddDevicesTo(const admission::Node& node, const admission::NodeState& state,
                  std::vector<Zone>& zones) {
  for (const auto& [name, resource] : state.devices.resources) {
    const std::set<std::string> allocated = state.devices.AllocatedIds(name);
    std::vector<Amount*> amounts(zones.size());
    for (const auto& [id, device] : resource.devices) {
      for (const int position : node.machine.MaskOfIds(device.numa)) {
        Amount*& of_zone = amounts[static_cast<size_t>(position)];
        if (of_zone == nullptr) of_zone = &zones[static_cast<size_t>(position)].resources[name];
        Amount& amount = *of_zone;
        ++amount.capacity;
        // Without its plugin, a device is allocated to no further container.
        if (!device.healthy || !resource.registered) continue;
        ++amount.allocatable;
        if (!allocated.contains(id)) ++amount.available;
      }
    }
  }
}

void Add(const Amount& part, Amount& sum) {
  sum.capacity += part.capacity;
  sum.allocatable += part.allocatable;
  sum.available += part.available;
}

}  // namespace

std::vector<Zone> Zones(const admission::Node& node, const admission::NodeState& state) {
  const Machine& machine = node.machine;
  const CpuSets cpus = CpuSetsOf(node, state);
  std::vector<Zone> zones;
  for (int position = 0; position < machine.numa_count(); ++position) {
    const NumaNode& numa = machine.numa()[static_cast<size_t>(position)];
    Zone& zone = zones.emplace_back();
    zone.numa_id = numa.id;
    zone.resources["cpu"] = CpusOf(machine.CpusInNuma(position), cpus);
    if (!node.memory) {
      AddUnmanagedMemory(numa, zone.resources);
    } else if (const auto memory = state.memory.machine.find(numa.id);
               memory != state.memory.machine.end()) {
      AddMemoryOf(memory->second, zone.resources);
    }
    if (numa.distances.empty()) continue;
    for (int to = 0; to < machine.numa_count(); ++to) {
      zone.costs.emplace_back(machine.NumaId(to), machine.Distance(position, to));
    }
  }
  AddDevicesTo(node, state, zones);
  return zones;
}

std::vector<MemoryGroup> MemoryGroups(const admission::Node& node,
                                      const admission::NodeState& state) {
  std::vector<MemoryGroup> groups;
  if (!node.memory) return groups;
  for (const auto& [id, numa] : state.memory.machine) {
    // Each group is taken at its first node.
    if (numa.number_of_assignments == 0 || numa.cells.empty()) continue;
    if (std::ranges::min(numa.cells) != id) continue;
    MemoryGroup& group = groups.emplace_back();
    group.numa_ids = numa.cells;
    std::ranges::sort(group.numa_ids);
    for (const int member : group.numa_ids) {
      const auto found = state.memory.machine.find(member);
      if (found == state.memory.machine.end()) continue;
      std::map<std::string, Amount> memory;
      AddMemoryOf(found->second, memory);
      for (const auto& [type, amount] : memory) Add(amount, group.memory[type]);
    }
  }
  return groups;
}

std::vector<DeviceGroup> DeviceGroups(const admission::Node& node,
                                      const admission::NodeState& state) {
  std::map<std::pair<std::string, std::vector<int64_t>>, Amount> groups;
  for (const auto& [name, resource] : state.devices.resources) {
    const std::set<std::string> allocated = state.devices.AllocatedIds(name);
    for (const auto& [id, device] : resource.devices) {
      const std::set<int64_t> nodes(device.numa.begin(), device.numa.end());
      if (nodes.size() == 1 && node.machine.NumaPosition(*nodes.begin())) continue;
      Amount& amount = groups[{name, {nodes.begin(), nodes.end()}}];
      ++amount.capacity;
      if (!device.healthy || !resource.registered) continue;
      ++amount.allocatable;
      if (!allocated.contains(id)) ++amount.available;
    }
  }
  std::vector<DeviceGroup> list;
  for (const auto& [key, amount] : groups) list.push_back({key.first, key.second, amount});
  return list;
}

std::optional<FreeCores> FreeCoresOf(const admission::Node& node,
                                     const admission::NodeState& state) {
  if (!node.cpu || !node.cpu->options.full_pcpus_only) return std::nullopt;
  const Machine& machine = node.machine;
  FreeCores free;
  free.cpus_per_core = machine.cpus_per_core();
  for (const NumaNode& numa : machine.numa()) free.cpus[numa.id] = 0;
  const CpuSet free_cpus =
      state.cpu.default_set - cpumanager::HeldBack(machine, *node.cpu, state.cpu);
  for (const CpuGroup& core : machine.cores()) {
    const bool is_regular =
        core.cpus.Count() == free.cpus_per_core && machine.NumaOf(core.cpus).Count() == 1;
    if (!is_regular) return std::nullopt;
    if (core.cpus.Intersects(node.cpu->reserved)) continue;
    if (free_cpus.Contains(core.cpus)) {
      free.cpus[machine.NumaId(machine.NumaOf(core.cpus.First()))] +=
          static_cast<uint64_t>(free.cpus_per_core);
    } else if (free_cpus.Intersects(core.cpus)) {
      return std::nullopt;
    }
  }
  return free;
}

std::map<int, Backing> BackingOf(const admission::Node& node, const admission::NodeState& state) {
  std::map<int, Backing> all;
  if (!admission::MayShareNodes(node)) return all;
  for (const NumaNode& numa : node.machine.numa()) {
    const CpuSet cpus = cpumanager::BackingOn(node.machine, *node.cpu, state.cpu, numa.id);
    Backing& backing = all[numa.id];
    backing.millis = cpumanager::SharesOn(state.cpu, numa.id);
    backing.cpus = static_cast<uint64_t>(cpus.Count());
    for (const CpuGroup& core : node.machine.cores()) {
      if (cpus.Contains(core.cpus)) backing.core_cpus += static_cast<uint64_t>(core.cpus.Count());
    }
  }
  return all;
}

}  // namespace alignd::noderesourcetopology
