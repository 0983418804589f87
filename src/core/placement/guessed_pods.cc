// What pods have that run, and that no state file has.
#include <algorithm>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/saturating_sum.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/placement/guessed_places.h"
#include "core/memorymanager/memory_request.h"
#include "core/placement/numa_amounts.h"
#include "core/placement/numa_rules.h"

namespace alignd::placement {
namespace {

using admission::Node;
using admission::NodeState;
using memorymanager::IsMemoryType;

// With full-pcpus-only, how many whole cores are free does not depend on where pods are, unless
// some of the free cores are free in part.
bool HasPartOfCore(const Node& node, const CpuSet& free) {
  return node.cpu->options.full_pcpus_only &&
         std::ranges::any_of(node.machine.cores(), [&free](const CpuGroup& core) {
           const int common = core.cpus.CountCommon(free);
           return common > 0 && common < core.cpus.Count();
         });
}

// What the container has of it by the state.
int64_t HeldAmount(const NodeState& state, const ContainerKey& key, const std::string& resource) {
  if (resource == kCpuName) {
    const CpuSet* const cpus = state.cpu.Find(key);
    return cpus == nullptr ? 0 : cpus->Count();
  }
  if (!IsMemoryType(resource)) {
    const devicemanager::DeviceAllocation* const devices = state.devices.Find(key, resource);
    return devices == nullptr ? 0 : static_cast<int64_t>(devices->Ids().size());
  }
  const std::vector<memorymanager::Block>* const blocks = state.memory.Find(key);
  if (blocks == nullptr) return 0;
  NumaAmounts bytes;
  for (const memorymanager::Block& block : *blocks) {
    bytes[block.type] += static_cast<int64_t>(std::min<uint64_t>(block.size, INT64_MAX / 4));
  }
  return bytes[resource];
}

}  // namespace

void GuessedPlaces::SetFree(const Node& node, const NodeState& state) {
  const Machine& machine = node.machine;
  const auto count = static_cast<size_t>(machine.numa_count());
  if (node.cpu) {
    const CpuSet free = state.cpu.default_set - node.cpu->reserved -
                        cpumanager::HeldBack(machine, *node.cpu, state.cpu);
    has_part_of_core_ = HasPartOfCore(node, free);
    free_[kCpuName].resize(count);
    capacity_[kCpuName].resize(count);
    for (const CpuGroup& numa : machine.numa_groups()) {
      const auto position = static_cast<size_t>(numa.id);
      free_[kCpuName][position] = free.CountCommon(numa.cpus);
      capacity_[kCpuName][position] = numa.cpus.Count();
    }
  }
  for (const auto& [resource, known] : state.devices.resources) {
    const auto is_nowhere = [](const auto& one) { return one.second.numa.empty(); };
    if (std::ranges::all_of(known.devices, is_nowhere)) continue;
    std::vector<int64_t> free(count);
    std::vector<int64_t> all(count);
    const std::set<std::string> allocated = state.devices.AllocatedIds(resource);
    for (const auto& [id, device] : known.devices) {
      const auto position =
          device.numa.size() == 1 ? machine.NumaPosition(device.numa[0]) : std::nullopt;
      if (!position) {
        loose_.insert(resource);
        continue;
      }
      ++all[static_cast<size_t>(*position)];
      if (device.healthy && !allocated.contains(id)) ++free[static_cast<size_t>(*position)];
    }
    free_[resource] = std::move(free);
    capacity_[resource] = std::move(all);
  }
  if (!node.memory) return;
  for (const auto& [id, numa] : state.memory.machine) {
    const auto position = static_cast<size_t>(machine.NumaPosition(id).value_or(0));
    has_groups_ = has_groups_ || numa.cells.size() > 1;
    for (const auto& [type, table] : numa.tables) {
      auto& free = free_[type];
      auto& all = capacity_[type];
      free.resize(count);
      all.resize(count);
      free[position] = static_cast<int64_t>(std::min<uint64_t>(table.free, INT64_MAX / 4));
      all[position] = static_cast<int64_t>(std::min<uint64_t>(table.allocatable, INT64_MAX / 4));
    }
  }
}

void GuessedPlaces::Start(const Node& node, const Pod& pod, const NodeState& before) {
  if (!items_.empty()) return;
  free_ = capacity_ = {};
  SetFree(node, before);
  first_ = pod.name_space + "/" + pod.name;
}

void GuessedPlaces::AddMemory(std::set<std::string>& resources) const {
  for (const auto& [resource, free] : free_) {
    if (IsMemoryType(resource)) resources.insert(resource);
  }
}

std::set<std::string> GuessedPlaces::MissingOf(const Node& node, const Pod& pod,
                                               const NodeState& state) const {
  std::set<std::string> missing;
  const bool is_whole = pod.pod_level_managers == PodLevelManagers::kPod;
  const bool has_cpus = !state.cpu.HeldBy(pod.uid).empty();
  const bool has_memory = !state.memory.BookedFor(pod.uid).empty();
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    if (is_whole && !has_cpus && admission::RequestsCpus(node, pod, container)) {
      missing.insert(kCpuName);
    }
    if (is_whole && !has_memory && admission::RequestsMemory(node, pod, container)) {
      AddMemory(missing);
    }
    if (admission::AsksForOneNode(node, pod, container) && !state.cpu.shares.contains(key)) {
      missing.insert(kCpuName);
      AddMemory(missing);
    }
    for (const auto& [resource, amount] : PartOf(node, pod, container)) {
      if (HeldAmount(state, key, resource) >= amount) continue;
      const bool is_cpu = resource == kCpuName;
      if (is_cpu || IsMemoryType(resource)) {
        if (is_whole) continue;
        // An init container that has ended has none left. Its devices stay with the pod.
        if (container.kind == ContainerKind::kInit && (is_cpu ? has_cpus : has_memory)) continue;
      }
      missing.insert(resource);
    }
  }
  return missing;
}

void GuessedPlaces::AddUnclear(const std::set<std::string>& resources) {
  Item item;
  item.is_split = item.is_unclear = true;
  item.is_bounded = false;
  for (const std::string& resource : resources) item.amounts[resource] = 0;
  items_.push_back(std::move(item));
}

bool GuessedPlaces::AddWithoutPlace(const Node& node, const Pod& pod, const NodeState& state) {
  Start(node, pod, state);
  const std::set<std::string> missing = MissingOf(node, pod, state);
  if (!missing.empty()) AddUnclear(missing);
  return !missing.empty();
}

void GuessedPlaces::AddAtMost(const Node& node, const Pod& pod, const NodeState& state) {
  Start(node, pod, state);
  const std::set<std::string> missing = MissingOf(node, pod, state);
  if (missing.empty()) return;
  const NumaAmounts whole = WholeOf(node, pod);
  NumaAmounts most = whole;
  for (const Container& container : pod.containers) {
    for (const auto& [resource, amount] : PartOf(node, pod, container)) {
      if (whole.contains(resource)) continue;
      const int64_t held = HeldAmount(state, {pod.uid, container.name}, resource);
      most[resource] = SaturatingSum(most[resource], std::max<int64_t>(amount - held, 0));
    }
  }
  Item item;
  item.is_split = item.is_unclear = true;
  for (const std::string& resource : missing) item.amounts[resource] = most[resource];
  // What it has as a whole, or of shared CPUs, is not in the sum.
  item.is_bounded = pod.pod_level_managers != PodLevelManagers::kPod &&
                    std::ranges::none_of(pod.containers, [&](const Container& one) {
                      return admission::AsksForOneNode(node, pod, one);
                    });
  item.is_at_most = item.is_bounded;
  items_.push_back(std::move(item));
}

void GuessedPlaces::AddEnded(const Node& node, const Pod& pod, const NodeState& before,
                             const NodeState& after) {
  Start(node, pod, after);
  Item item;
  item.is_split = item.is_unclear = item.is_at_most = true;
  const int cpus = after.cpu.default_set.Count() - before.cpu.default_set.Count();
  if (cpus > 0) item.amounts[kCpuName] = cpus;
  for (const CpuGroup& numa : node.machine.numa_groups()) {
    const int64_t backed =
        cpumanager::BackedOn(before.cpu, numa.id) - cpumanager::BackedOn(after.cpu, numa.id);
    const bool frees =
        cpumanager::SharesOn(before.cpu, numa.id) > cpumanager::SharesOn(after.cpu, numa.id);
    if (frees) item.amounts[kCpuName] += backed;
  }
  for (const auto& [id, numa] : before.memory.machine) {
    for (const auto& [type, table] : numa.tables) {
      const uint64_t freed = after.memory.machine.at(id).tables.at(type).free - table.free;
      if (freed > 0) item.amounts[type] += static_cast<int64_t>(freed);
    }
  }
  if (!item.amounts.empty()) items_.push_back(std::move(item));
}

void GuessedPlaces::AddResized(const Node& node, const Pod& pod, const NodeState& state) {
  Start(node, pod, state);
  std::set<std::string> resources = {kCpuName};
  AddMemory(resources);
  for (const auto& [resource, amount] : SumOf(PartsOf(node, pod))) resources.insert(resource);
  AddUnclear(resources);
}

void GuessedPlaces::AddUnlisted(const Node& node, const Pod& pod, const NodeState& state,
                                const std::set<std::string>& devices) {
  Start(node, pod, state);
  unlisted_.insert(devices.begin(), devices.end());
  AddUnclear(devices);
}

bool GuessedPlaces::Add(const Node& node, const Pod& pod, const NodeState& before,
                        const NodeState& after) {
  std::vector<Item> items;
  const bool has_init = std::ranges::any_of(
      pod.containers, [](const Container& one) { return one.kind == ContainerKind::kInit; });
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    Item item;
    const CpuSet* const cpus = after.cpu.Find(key);
    if (cpus != nullptr && before.cpu.Find(key) == nullptr) item.amounts[kCpuName] = cpus->Count();
    const auto devices = after.devices.allocations.find(key);
    if (devices != after.devices.allocations.end()) {
      for (const auto& [resource, allocation] : devices->second) {
        if (before.devices.Find(key, resource) != nullptr) continue;
        item.amounts[resource] = static_cast<int64_t>(allocation.Ids().size());
      }
    }
    const std::vector<memorymanager::Block>* const blocks = after.memory.Find(key);
    if (blocks != nullptr && before.memory.Find(key) == nullptr) {
      for (const memorymanager::Block& block : *blocks) {
        item.amounts[block.type] +=
            static_cast<int64_t>(std::min<uint64_t>(block.size, INT64_MAX / 4));
        item.is_split = item.is_split || block.numa_affinity.size() > 1;
      }
    }
    // With init containers, all of the pod: what is reused of theirs depends on where it is.
    item.is_bounded = pod.pod_level_managers != PodLevelManagers::kPod;
    item.is_unclear = has_init || !item.is_bounded;
    if (after.cpu.shares.contains(key) && !before.cpu.shares.contains(key)) {
      item.amounts.try_emplace(kCpuName, 0);
      item.is_bounded = false;
      item.is_unclear = true;
    }
    if (!item.amounts.empty()) items.push_back(std::move(item));
  }
  if (items.empty()) return false;
  Start(node, pod, before);
  const topologymanager::Policy& policy = admission::TopologyOf(node, pod);
  if (HasOneHint(policy)) {
    Item whole;
    for (const Item& item : items) {
      for (const auto& [resource, amount] : item.amounts) whole.amounts[resource] += amount;
      whole.is_split = whole.is_split || item.is_split;
      whole.is_unclear = whole.is_unclear || item.is_unclear;
      whole.is_bounded = whole.is_bounded && item.is_bounded;
    }
    items = {std::move(whole)};
  }
  for (Item& item : items) {
    // On one NUMA node, it has as much in any case, but for what it reuses of its init containers.
    if (node.machine.numa_count() < 2) item.is_unclear = item.is_unclear && has_init;
    item.is_split = item.is_split || !KeepsOnOneNode(node, policy) || !IsOnOneNode(item.amounts);
    items_.push_back(std::move(item));
  }
  return true;
}

}  // namespace alignd::placement
