// Devices of a kubelet's checkpoint.
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "alignd/base/counted.h"
#include "alignd/placement/node_input.h"
#include "core/placement/described_devices.h"

namespace alignd::placement {
namespace {

using scenario::DeviceList;

// A NUMA node and ids of devices on it.
struct AllocatedDevices {
  std::map<std::string, std::set<int64_t>> numa_of;  // by id
};

AllocatedDevices AllocatedOf(const checkpoint::DeviceCheckpoint& checkpoint,
                             const std::string& resource) {
  AllocatedDevices allocated;
  for (const auto& [key, resources] : checkpoint.allocations) {
    const auto found = resources.find(resource);
    if (found == resources.end()) continue;
    for (const auto& [numa, ids] : found->second.devices) {
      for (const std::string& id : ids) {
        std::set<int64_t>& nodes = allocated.numa_of[id];
        if (numa >= 0) nodes.insert(numa);
      }
    }
  }
  return allocated;
}

std::string DescribeNuma(const std::set<int64_t>& nodes) {
  if (nodes.empty()) return "on no NUMA node";
  std::string text = nodes.size() == 1 ? "on NUMA node" : "on NUMA nodes";
  for (const int64_t node : nodes) text += " " + std::to_string(node);
  return text;
}

std::set<int64_t> NumaOf(const devicemanager::Device& device) {
  return {device.numa.begin(), device.numa.end()};
}

// Where the checkpoint places a device that the description does not have there.
Error Contradiction(const std::string& resource, const std::string& id,
                    const std::set<int64_t>& nodes, const std::string& described) {
  return Error{ErrorCode::kInvalidArgument,
               "the checkpoint has device " + id + " of " + resource + " " + DescribeNuma(nodes) +
                   ", and the description has " + described,
               "give description and checkpoint of the same node"};
}

// A stated id is that of the same device in both.
Result<Done> CheckStatedIds(const std::string& resource, const AllocatedDevices& allocated,
                            const DeviceList& devices) {
  for (const auto& [id, device] : devices) {
    const auto found = allocated.numa_of.find(id);
    if (found == allocated.numa_of.end() || found->second == NumaOf(device)) continue;
    return Contradiction(resource, id, found->second, "it " + DescribeNuma(NumaOf(device)));
  }
  return Done{};
}

// Generated ids mean nothing: one that is allocated must not keep another device from its slot.
void RenameGenerated(const AllocatedDevices& allocated, DeviceList& devices) {
  std::set<std::string> used;
  for (const auto& [id, device] : devices) used.insert(id);
  for (const auto& [id, nodes] : allocated.numa_of) used.insert(id);
  for (auto& [id, device] : devices) {
    if (!allocated.numa_of.contains(id)) continue;
    std::string other = id;
    while (!used.insert(other).second) other += "-free";
    id = std::move(other);
  }
}

// Gives described devices the ids of the allocated ones on the same NUMA nodes.
Result<Done> TakeAllocatedIds(const std::string& resource, const AllocatedDevices& allocated,
                              bool is_generated, DeviceList& devices) {
  if (is_generated) {
    RenameGenerated(allocated, devices);
  } else {
    const Result<Done> checked = CheckStatedIds(resource, allocated, devices);
    if (!checked.ok()) return checked;
  }
  std::set<std::string> known;
  for (const auto& [id, device] : devices) known.insert(id);
  for (const auto& entry_of : allocated.numa_of) {
    const std::string& id = entry_of.first;
    const std::set<int64_t>& nodes = entry_of.second;
    if (known.contains(id)) continue;
    const auto slot = std::ranges::find_if(devices, [&](const auto& entry) {
      return NumaOf(entry.second) == nodes && !allocated.numa_of.contains(entry.first);
    });
    if (slot == devices.end()) return Contradiction(resource, id, nodes, "no such device");
    slot->first = id;
  }
  return Done{};
}

// The checkpoint registers the healthy devices of the plugins that are there.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, writeCheckpoint.
struct RegisteredDevices {
  std::set<std::string> healthy;
  AllocatedDevices allocated;
  std::map<std::string, std::set<int64_t>> gone;  // allocated, and not healthy: NUMA nodes by id
};

RegisteredDevices RegisteredIn(const checkpoint::DeviceCheckpoint& checkpoint,
                               const std::string& resource) {
  RegisteredDevices devices;
  if (const auto ids = checkpoint.registered.find(resource); ids != checkpoint.registered.end()) {
    devices.healthy = {ids->second.begin(), ids->second.end()};
  }
  devices.allocated = AllocatedOf(checkpoint, resource);
  for (const auto& [id, nodes] : devices.allocated.numa_of) {
    if (!devices.healthy.contains(id)) devices.gone.emplace(id, nodes);
  }
  return devices;
}

// Described devices: which of them are allocated, and which are not healthy.
Result<Done> CompareDescribed(const std::string& resource, RegisteredDevices devices,
                              NodeInput& input) {
  DeviceList& described = input.description.devices.at(resource);
  const bool is_generated = input.generated_ids.contains(resource);
  const auto is_described = [&described](const std::string& id) {
    return std::ranges::find(described, id, &DeviceList::value_type::first) != described.end();
  };
  const bool has_ids = !is_generated && !devices.healthy.empty() &&
                       std::ranges::all_of(devices.healthy, is_described);
  // If only the healthy ones are described, the others are additional.
  const bool is_healthy_only = !has_ids && described.size() <= devices.healthy.size();
  if (is_healthy_only) {
    for (const auto& [id, nodes] : devices.gone) devices.allocated.numa_of.erase(id);
  }
  const Result<Done> taken = TakeAllocatedIds(resource, devices.allocated, is_generated, described);
  if (!taken.ok()) return taken;
  if (is_healthy_only) {
    for (const auto& [id, nodes] : devices.gone) {
      if (!is_described(id)) {
        described.emplace_back(id, devicemanager::Device{false, {nodes.begin(), nodes.end()}});
      }
    }
  }
  for (auto& [id, device] : described) {
    const bool is_missing = has_ids && !devices.healthy.contains(id);
    if (is_missing || devices.gone.contains(id)) device.healthy = false;
  }
  const auto count = static_cast<size_t>(
      std::ranges::count_if(described, [](const auto& entry) { return entry.second.healthy; }));
  if (!has_ids && count > devices.healthy.size()) {
    input.unlocated_devices[resource] =
        "the kubelet's checkpoint has " + Counted(devices.healthy.size(), "healthy device") +
        ", and " + std::to_string(count) + " " + std::string(IsOrAre(count)) +
        " described; which devices are unhealthy is not known; describe the healthy devices "
        "only";
  }
  return CheckDevices(input.description.machine, resource, described);
}

}  // namespace

Result<Done> AddCheckpointDevices(const checkpoint::DeviceCheckpoint& checkpoint,
                                  NodeInput& input) {
  auto& described = input.description.devices;
  std::set<std::string> resources;
  for (const auto& [resource, devices] : described) resources.insert(resource);
  for (const auto& [resource, ids] : checkpoint.registered) resources.insert(resource);
  for (const auto& [key, allocated] : checkpoint.allocations) {
    for (const auto& [resource, allocation] : allocated) resources.insert(resource);
  }
  for (const std::string& resource : resources) {
    const RegisteredDevices registered = RegisteredIn(checkpoint, resource);
    if (described.contains(resource)) {
      const Result<Done> compared = CompareDescribed(resource, registered, input);
      if (!compared.ok()) return compared;
      continue;
    }
    std::map<std::string, std::set<int64_t>> numa_of = registered.allocated.numa_of;
    bool is_unlocated = false;
    for (const std::string& id : registered.healthy) {
      is_unlocated = numa_of.try_emplace(id).second || is_unlocated;
    }
    DeviceList devices;
    for (const auto& [id, nodes] : numa_of) {
      devices.emplace_back(
          id, devicemanager::Device{registered.healthy.contains(id), {nodes.begin(), nodes.end()}});
    }
    const Result<Done> checked = CheckDevices(input.description.machine, resource, devices);
    if (!checked.ok()) return checked;
    described.emplace(resource, std::move(devices));
    if (!is_unlocated) continue;
    input.unlocated_devices[resource] =
        "the kubelet's checkpoint does not have the NUMA nodes of free devices; add --device " +
        resource + "=COUNT@NUMA,...";
  }
  return Done{};
}

}  // namespace alignd::placement
