#include "podresources/answers.h"

#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/pod_level.h"
#include "reconcile/assigned_containers.h"

namespace alignd::podresources {
namespace {

using Pod = reconcile::ContainerRegistry::Pod;
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

void AddBlocks(const std::vector<memorymanager::Block>& blocks, Memories& into) {
  for (const memorymanager::Block& block : blocks) {
    AddMemory(block.numa_affinity, block.type, block.size, into);
  }
}

void AddClaim(const dra::PreparedClaim& claim, ::v1::ContainerResources& container) {
  ::v1::DynamicResource& added = *container.add_dynamic_resources();
  added.set_claim_name(claim.name);
  added.set_claim_namespace(claim.name_space);
  for (const dra::PreparedDevice& device : claim.devices) {
    ::v1::ClaimResource& resource = *added.add_claim_resources();
    for (const std::string& name : device.cdi_names) resource.add_cdi_devices()->set_name(name);
    resource.set_driver_name(device.driver);
    resource.set_pool_name(device.pool);
    resource.set_device_name(device.name);
    if (!device.share_id.empty()) resource.set_share_id(device.share_id);
  }
}

void AddDevices(const admission::NodeState& state, const ContainerKey& key, Devices& into) {
  const auto allocated = state.devices.allocations.find(key);
  if (allocated == state.devices.allocations.end()) return;
  for (const auto& [resource, allocation] : allocated->second) {
    for (const auto& [numa, ids] : allocation.devices) {
      for (const std::string& id : ids) AddDevice(resource, id, numa, into);
    }
  }
}

}  // namespace

std::vector<Pod> WithHolders(
    const admission::NodeState& state, const reconcile::ContainerRegistry& registry,
    const std::function<std::set<std::string>(const std::string& pod_uid)>& init_containers) {
  const auto is_init = [&](const ContainerKey& key) {
    return init_containers(key.pod_uid).contains(key.container);
  };
  const std::set<ContainerKey> reused = reconcile::ReusedContainers(state, registry, is_init);
  std::map<std::string, std::set<std::string>> holders;  // names by pod UID
  for (const ContainerKey& key : reconcile::AssignedContainers(state)) {
    if (!reused.contains(key)) holders[key.pod_uid].insert(key.container);
  }
  std::set<std::string> holding;
  for (const auto& [uid, names] : holders) holding.insert(uid);
  std::vector<Pod> pods = registry.Pods(holding);
  for (Pod& pod : pods) {
    pod.containers.merge(holders[pod.uid]);
    for (const std::string& name : init_containers(pod.uid)) pod.containers.erase(name);
  }
  return pods;
}

::v1::PodResources Describe(const admission::NodeState& state, const Pod& pod,
                            const dra::ContainerClaims& claims) {
  ::v1::PodResources described;
  described.set_name(pod.name);
  described.set_namespace_(pod.name_space);
  if (const auto whole = state.cpu.pods.find(pod.uid); whole != state.cpu.pods.end()) {
    for (const int cpu : (whole->second - state.cpu.offline).ToVector()) described.add_cpu_ids(cpu);
  }
  if (const auto whole = state.memory.pods.find(pod.uid); whole != state.memory.pods.end()) {
    AddBlocks(whole->second, *described.mutable_memory());
  }
  for (const std::string& name : pod.containers) {
    const ContainerKey key{pod.uid, name};
    ::v1::ContainerResources& container = *described.add_containers();
    container.set_name(name);
    const bool is_own = admission::IsolationOf(state, key) == admission::Isolation::kContainer;
    if (is_own) {
      for (const int cpu : state.cpu.RunsOn(key).ToVector()) container.add_cpu_ids(cpu);
    }
    const std::vector<memorymanager::Block>* const blocks = state.memory.Find(key);
    if (blocks != nullptr && (is_own || !state.memory.pods.contains(pod.uid))) {
      AddBlocks(*blocks, *container.mutable_memory());
    }
    AddDevices(state, key, *container.mutable_devices());
    for (const dra::PreparedClaim& claim : claims.ClaimsOf(key)) AddClaim(claim, container);
  }
  return described;
}

::v1alpha1::PodResources DescribeDevices(const admission::NodeState& state, const Pod& pod) {
  const dra::ContainerClaims none({}, nullptr);  // this version does not have them
  const ::v1::PodResources described = Describe(state, pod, none);
  ::v1alpha1::PodResources devices;
  devices.set_name(described.name());
  devices.set_namespace_(described.namespace_());
  for (const ::v1::ContainerResources& container : described.containers()) {
    ::v1alpha1::ContainerResources& added = *devices.add_containers();
    added.set_name(container.name());
    for (const ::v1::ContainerDevices& entry : container.devices()) {
      ::v1alpha1::ContainerDevices& device = *added.add_devices();
      device.set_resource_name(entry.resource_name());
      *device.mutable_device_ids() = entry.device_ids();
    }
  }
  return devices;
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
    const CpuSet cpus = node.machine.cpus() - node.cpu->reserved - state.cpu.offline;
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
