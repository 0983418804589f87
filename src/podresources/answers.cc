#include "podresources/answers.h"

#include <set>
#include <string>
#include <vector>

namespace alignd::podresources {
namespace {

using Devices = google::protobuf::RepeatedPtrField<::v1::ContainerDevices>;
using Memories = google::protobuf::RepeatedPtrField<::v1::ContainerMemory>;

// The kubelet's pseudo node of devices without topology.
constexpr int64_t kWithoutTopology = -1;

void AddDevice(const std::string& resource, const std::string& id, int64_t numa, Devices& into) {
  ::v1::ContainerDevices& entry = *into.Add();
  entry.set_resource_name(resource);
  entry.add_device_ids(id);
  if (numa != kWithoutTopology) entry.mutable_topology()->add_nodes()->set_id(numa);
}

void AddMemory(const std::vector<int>& numa, const std::string& type, uint64_t bytes,
               Memories& into) {
  ::v1::ContainerMemory& entry = *into.Add();
  entry.set_memory_type(type);
  entry.set_size(bytes);
  for (const int id : numa) entry.mutable_topology()->add_nodes()->set_id(id);
}

}  // namespace

::v1::PodResources Describe(const admission::NodeState& state,
                            const reconcile::ContainerRegistry::Pod& pod) {
  ::v1::PodResources described;
  described.set_name(pod.name);
  described.set_namespace_(pod.name_space);
  for (const std::string& name : pod.containers) {
    const ContainerKey key{pod.uid, name};
    ::v1::ContainerResources& container = *described.add_containers();
    container.set_name(name);
    if (const CpuSet* cpus = state.cpu.Find(key)) {
      for (const int cpu : cpus->ToVector()) container.add_cpu_ids(cpu);
    }
    if (const std::vector<memorymanager::Block>* blocks = state.memory.Find(key)) {
      for (const memorymanager::Block& block : *blocks) {
        AddMemory(block.numa_affinity, block.type, block.size, *container.mutable_memory());
      }
    }
    const auto allocated = state.devices.allocations.find(key);
    if (allocated == state.devices.allocations.end()) continue;
    for (const auto& [resource, allocation] : allocated->second) {
      for (const auto& [numa, ids] : allocation.devices) {
        for (const std::string& id : ids) {
          AddDevice(resource, id, numa, *container.mutable_devices());
        }
      }
    }
  }
  return described;
}

::v1::AllocatableResourcesResponse Allocatable(const admission::Node& node,
                                               const admission::NodeState& state) {
  ::v1::AllocatableResourcesResponse all;
  for (const auto& [name, resource] : state.devices.resources) {
    for (const auto& [id, device] : resource.devices) {
      if (!device.healthy) continue;
      if (device.numa.empty()) AddDevice(name, id, kWithoutTopology, *all.mutable_devices());
      for (const int64_t numa : std::set<int64_t>(device.numa.begin(), device.numa.end())) {
        AddDevice(name, id, numa, *all.mutable_devices());
      }
    }
  }
  if (node.cpu) {
    const CpuSet cpus = node.machine.cpus() - node.cpu->reserved;
    for (const int cpu : cpus.ToVector()) all.add_cpu_ids(cpu);
  }
  if (node.memory) {
    for (const auto& [numa, memory] : state.memory.machine) {
      for (const auto& [type, table] : memory.tables) {
        if (table.allocatable > 0) {
          AddMemory({numa}, type, table.allocatable, *all.mutable_memory());
        }
      }
    }
  }
  return all;
}

}  // namespace alignd::podresources
