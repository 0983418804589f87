#include "core/admission/shortage.h"

#include <map>

#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"
#include "core/admission/remedy.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

void AddSentence(std::string& text, const std::string& part) {
  text += (text.empty() ? "" : "; ") + part;
}

std::string ShortOf(uint64_t needed, uint64_t free, uint64_t total, const std::string& what) {
  return std::to_string(needed) + " " + what + (needed == 1 ? " is" : " are") +
         " requested, and the node has " + std::to_string(free) + " free of " +
         std::to_string(total);
}

int64_t RequestOf(const Container& container, const std::string& resource) {
  const Quantity* const amount = Find(container.resources.requests, resource);
  return amount == nullptr ? 0 : amount->Value();
}

// The exclusive CPUs that the pod needs at a time.
uint64_t CpusNeeded(const Pod& pod) {
  if (const int64_t whole = PodCpuBudget(pod); whole > 0) return static_cast<uint64_t>(whole);
  return NeededAtOnce(pod, [&](const Container& one) { return ExclusiveCpuCount(pod, one); });
}

// The memory of a type that the pod needs at a time.
uint64_t MemoryNeeded(const Pod& pod, const std::string& type) {
  if (pod.pod_level_managers == PodLevelManagers::kPod) {
    const Quantity* const whole = Find(pod.pod_level->requests, type);
    return whole == nullptr ? 0 : static_cast<uint64_t>(std::max<int64_t>(whole->Value(), 0));
  }
  return NeededAtOnce(
      pod, [&](const Container& one) { return IsEligible(pod, one) ? RequestOf(one, type) : 0; });
}

// One type of memory.
struct TypeOfMemory {
  Availability whole;    // of all NUMA nodes
  uint64_t largest = 0;  // that one NUMA node has free
  std::string places;    // "32Mi of 64Mi on NUMA node 0, 0 of 64Mi on NUMA node 1"
};

// The memory from which the pod is assigned its own, by type. None: it is assigned none, or has it.
std::map<std::string, TypeOfMemory> MemoryFor(const Node& node, const NodeState& state,
                                              const Pod& pod) {
  std::map<std::string, TypeOfMemory> types;
  if (!AssignsMemory(node, pod) || state.memory.assignments.contains(pod.uid)) return types;
  for (const NumaAvailability& numa : AvailableFor(node, state, pod)) {
    for (const auto& [type, memory] : numa.memory) {
      TypeOfMemory& known = types[type];
      known.whole.free = SaturatingSum(known.whole.free, memory.free);
      known.whole.total = SaturatingSum(known.whole.total, memory.total);
      known.largest = std::max(known.largest, memory.free);
      known.places += (known.places.empty() ? "" : ", ") + MemoryAmount(memory.free) + " of " +
                      MemoryAmount(memory.total) + " on NUMA node " + std::to_string(numa.numa_id);
    }
  }
  return types;
}

bool IsMemoryType(const std::string& resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

// The resources that the pod requests and is not assigned, as LackingResources names them.
std::set<std::string> Unassigned(const Node& node, const NodeState& state, const Pod& pod) {
  std::set<std::string> resources;
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    const bool asks_for_cpus =
        RequestsCpus(node, pod, container) || AsksForOneNode(node, pod, container);
    if (asks_for_cpus && state.cpu.Find(key) == nullptr && !state.cpu.shares.contains(key)) {
      resources.insert("cpu");
    }
    const bool is_pinned =
        RequestsMemory(node, pod, container) && state.memory.Find(key) == nullptr;
    for (const auto& [name, amount] : pod.pod_level_managers == PodLevelManagers::kPod
                                          ? pod.pod_level->requests
                                          : container.resources.requests) {
      if (is_pinned && IsMemoryType(name) && !amount.IsZero()) resources.insert(name);
    }
    for (const auto& [name, amount] : container.resources.limits) {
      const bool is_served = !amount.IsZero() && state.devices.resources.contains(name);
      if (is_served && state.devices.Find(key, name) == nullptr) resources.insert(name);
    }
  }
  return resources;
}

// The state after the other pods have released everything but the resource. `alone`: after they
// have released everything.
NodeState WithOthersOf(const std::string& resource, const NodeState& state,
                       const NodeState& alone) {
  NodeState held = alone;
  if (resource == "cpu") {
    held.cpu = state.cpu;
    return held;
  }
  if (IsMemoryType(resource)) {
    bool has_any = false;
    held.memory = state.memory;  // with the groups that its NUMA nodes are in
    for (auto& [numa_id, memory] : held.memory.machine) {
      const auto released = alone.memory.machine.find(numa_id);
      if (released == alone.memory.machine.end()) continue;
      for (auto& [type, table] : memory.tables) {
        const auto free = released->second.tables.find(type);
        if (free == released->second.tables.end()) continue;
        if (type != resource) table = free->second;
        has_any = has_any || !(table == free->second);
      }
    }
    if (!has_any) held.memory = alone.memory;  // the groups are those of other types
    return held;
  }
  for (const auto& [key, resources] : state.devices.allocations) {
    const auto found = resources.find(resource);
    if (found != resources.end()) held.devices.allocations[key][resource] = found->second;
  }
  for (const auto& [key, resources] : state.devices.withheld) {
    const auto found = resources.find(resource);
    if (found != resources.end()) held.devices.withheld[key][resource] = found->second;
  }
  return held;
}

}  // namespace

int64_t LimitOf(const Container& container, const std::string& resource) {
  const Quantity* const amount = Find(container.resources.limits, resource);
  return amount == nullptr ? 0 : amount->Value();
}

std::set<std::string> DevicesOf(const NodeState& state, const Pod& pod) {
  std::set<std::string> names;
  for (const Container& container : pod.containers) {
    for (const auto& [name, amount] : container.resources.limits) {
      if (!amount.IsZero() && state.devices.resources.contains(name)) names.insert(name);
    }
  }
  return names;
}

bool HasDevices(const NodeState& state, const Pod& pod, const std::string& resource) {
  return !state.devices.PodIds(pod.uid, resource).empty();
}

std::string DescribeShortage(const Node& node, const NodeState& state, const Pod& pod) {
  std::string text;
  if (node.cpu && !state.cpu.assignments.contains(pod.uid)) {
    const uint64_t needed = CpusNeeded(pod);
    const CpuSet& reserved = node.cpu->reserved;
    const CpuSet held_back = cpumanager::HeldBack(node.machine, *node.cpu, state.cpu);
    const auto free = static_cast<uint64_t>((state.cpu.default_set - reserved - held_back).Count());
    const auto total = static_cast<uint64_t>(node.machine.cpus().Count());
    if (needed > free) AddSentence(text, ShortOf(needed, free, total, "exclusive CPUs"));
  }
  for (const std::string& name : DevicesOf(state, pod)) {
    if (HasDevices(state, pod, name)) continue;
    const std::set<std::string> taken = state.devices.AllocatedIds(name);
    uint64_t free = 0;
    uint64_t total = 0;
    for (const auto& [id, device] : state.devices.resources.at(name).devices) {
      ++total;
      if (device.healthy && !taken.contains(id)) ++free;
    }
    const uint64_t needed =
        NeededAtOnce(pod, [&](const Container& one) { return LimitOf(one, name); });
    if (needed > free) AddSentence(text, ShortOf(needed, free, total, name));
  }
  for (const auto& [type, memory] : MemoryFor(node, state, pod)) {
    const uint64_t needed = MemoryNeeded(pod, type);
    if (needed <= memory.whole.free) continue;
    AddSentence(text, MemoryAmount(needed) + " of " + type + " are requested, and the node has " +
                          MemoryAmount(memory.whole.free) + " free of " +
                          MemoryAmount(memory.whole.total) + " (" + memory.places + ")");
  }
  return text;
}

std::string DescribeSpreadMemory(const Node& node, const NodeState& state, const Pod& pod) {
  std::string text;
  for (const auto& [type, memory] : MemoryFor(node, state, pod)) {
    const uint64_t needed = MemoryNeeded(pod, type);
    if (needed <= memory.largest || needed > memory.whole.free) continue;
    AddSentence(text, MemoryAmount(needed) + " of " + type +
                          " are requested, and no NUMA node has as much free (" + memory.places +
                          ")");
  }
  return text;
}

NodeState WithoutOthers(const NodeState& state, const std::string& pod_uid) {
  NodeState alone = state;
  for (const std::string& uid : PodsIn(state)) {
    if (uid != pod_uid) ReleasePod(uid, alone);
  }
  return alone;
}

std::set<std::string> LackingResources(const Node& node, const NodeState& state, const Pod& pod) {
  const NodeState alone = WithoutOthers(state, pod.uid);
  const std::set<std::string> requested = Unassigned(node, state, OnThisNode(node, pod));
  std::set<std::string> lacking;
  for (const std::string& resource : requested) {
    if (!Fits(node, WithOthersOf(resource, state, alone), pod)) lacking.insert(resource);
  }
  return lacking.empty() ? requested : lacking;
}

}  // namespace alignd::admission
