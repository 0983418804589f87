#include "metrics/node_metrics.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "alignd/admission/explanation.h"
#include "alignd/base/cpu_set.h"

namespace alignd::metrics {
namespace {

using admission::Availability;
using admission::NumaAvailability;

struct OfResource {
  const devicemanager::Resource* resource = nullptr;
  uint64_t free = 0;
  uint64_t allocated = 0;
  uint64_t unhealthy = 0;
};

std::map<std::string, OfResource> Resources(const admission::NodeState& state) {
  std::map<std::string, OfResource> resources;
  for (const auto& [name, resource] : state.devices.resources) {
    if (resources.size() == kMaxResources) break;
    OfResource& numbers = resources[name];
    numbers.resource = &resource;
    const std::set<std::string> allocated = state.devices.AllocatedIds(name);
    numbers.allocated = allocated.size();
    for (const auto& [id, device] : resource.devices) {
      if (!device.healthy) ++numbers.unhealthy;
      if (device.healthy && !allocated.contains(id)) ++numbers.free;
    }
  }
  return resources;
}

void CollectCpus(const admission::Node& node, const std::vector<NumaAvailability>& nodes,
                 Families& families) {
  families.Gauges("alignd_numa_cpus", "CPUs by NUMA node.");
  for (const NumaAvailability& numa : nodes) {
    families.Add(numa.cpus, {{"numa_node", std::to_string(numa.numa_id)}});
  }
  families.Gauges("alignd_numa_free_cpus",
                  "CPUs that can be assigned exclusively, by NUMA node. Only with the static CPU "
                  "manager policy.");
  for (const NumaAvailability& numa : nodes) {
    if (!node.cpu) break;
    families.Add(numa.free_cpus.Count(), {{"numa_node", std::to_string(numa.numa_id)}});
  }
}

// Once for `free` and once for `total`.
void CollectAvailable(const std::vector<NumaAvailability>& nodes, uint64_t Availability::*which,
                      const std::map<std::string, OfResource>* resources, Families& families) {
  for (const NumaAvailability& numa : nodes) {
    for (const auto& [name, available] : resources == nullptr ? numa.memory : numa.devices) {
      if (resources != nullptr && !resources->contains(name)) continue;
      families.Add(available.*which, {{"numa_node", std::to_string(numa.numa_id)},
                                      {resources == nullptr ? "type" : "resource", name}});
    }
  }
}

void CollectDevices(const std::map<std::string, OfResource>& resources, Families& families) {
  const auto add = [&](const char* name, const char* help, uint64_t OfResource::*which) {
    families.Gauges(name, help);
    for (const auto& [resource, numbers] : resources) {
      families.Add(numbers.*which, {{"resource", resource}});
    }
  };
  add("alignd_allocated_devices", "Devices that containers are assigned, by resource.",
      &OfResource::allocated);
  add("alignd_free_devices", "Healthy devices that no container is assigned, by resource.",
      &OfResource::free);
  add("alignd_unhealthy_devices", "Unhealthy devices, by resource.", &OfResource::unhealthy);
}

// Without pods of the shared pool, of which only the affinity is stored.
size_t AssignedPods(const admission::NodeState& state) {
  std::set<std::string> pods;
  for (const auto& [uid, containers] : state.cpu.assignments) pods.insert(uid);
  for (const auto& [uid, containers] : state.memory.assignments) pods.insert(uid);
  for (const auto& [key, resources] : state.devices.allocations) pods.insert(key.pod_uid);
  return pods.size();
}

}  // namespace

void CollectNode(const admission::Node& node, const admission::NodeState& state,
                 Families& families) {
  const std::vector<NumaAvailability> nodes = admission::AvailableByNode(node, state);
  const std::map<std::string, OfResource> resources = Resources(state);
  CollectCpus(node, nodes, families);
  families.Gauges("alignd_numa_memory_bytes",
                  "Memory that can be assigned, by NUMA node and type. Only with the Static memory "
                  "manager policy.");
  CollectAvailable(nodes, &Availability::total, nullptr, families);
  families.Gauges("alignd_numa_free_memory_bytes",
                  "Memory that no container is assigned, by NUMA node and type.");
  CollectAvailable(nodes, &Availability::free, nullptr, families);
  families.Gauges("alignd_numa_devices",
                  "Healthy devices by NUMA node and resource. A device on two nodes is in both.");
  CollectAvailable(nodes, &Availability::total, &resources, families);
  families.Gauges("alignd_numa_free_devices",
                  "Healthy devices that no container is assigned, by NUMA node and resource.");
  CollectAvailable(nodes, &Availability::free, &resources, families);
  CollectDevices(resources, families);
  families.Gauges("alignd_assigned_pods", "Pods that are assigned CPUs, memory or devices.");
  families.Add(static_cast<uint64_t>(AssignedPods(state)));
}

void CollectPlugins(const admission::NodeState& state, const std::set<std::string>& disconnected,
                    Families& families) {
  families.Gauges("alignd_device_plugin_connected",
                  "1 if the device plugin of the resource is registered and connected, else 0.");
  for (const auto& [name, numbers] : Resources(state)) {
    const bool is_connected = numbers.resource->registered && !disconnected.contains(name);
    families.Add(is_connected ? 1 : 0, {{"resource", name}});
  }
}

void CollectConditions(const std::vector<reconcile::Condition>& conditions, Families& families) {
  std::array<uint64_t, reconcile::kConditionNames.size()> counts{};
  for (const reconcile::Condition& condition : conditions) {
    ++counts[static_cast<size_t>(condition.type)];
  }
  families.Gauges("alignd_conditions",
                  "Conditions of the node that are present, by type: docs/conditions.md.");
  for (size_t i = 0; i < counts.size(); ++i) {
    if (i == static_cast<size_t>(reconcile::ConditionType::kCpusetRepaired)) continue;
    families.Add(counts[i], {{"type", std::string(reconcile::kConditionNames[i])}});
  }
}

}  // namespace alignd::metrics
