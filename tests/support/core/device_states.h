// Inventories and allocations of devices for tests.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "alignd/devicemanager/device_policy.h"
#include "core/pod_builder.h"

namespace alignd::devicemanager {

inline constexpr char kGpu[] = "vendor.com/gpu";

// A registered resource of healthy devices with these NUMA nodes.
inline Resource Registered(const std::map<std::string, std::vector<int64_t>>& numa_by_id) {
  Resource resource;
  resource.registered = true;
  for (const auto& [id, numa] : numa_by_id) resource.devices[id] = {.healthy = true, .numa = numa};
  return resource;
}

inline DeviceState StateWith(Resource gpus) {
  DeviceState state;
  state.resources[kGpu] = std::move(gpus);
  return state;
}

// Records that the container is allocated these devices.
inline void Hold(DeviceState& state, const ContainerKey& key, const std::string& resource,
                 const std::vector<std::string>& ids) {
  DevicesPerNuma& devices = state.allocations[key][resource].devices;
  const std::map<std::string, Device>& known = state.resources[resource].devices;
  for (const std::string& id : ids) {
    const auto device = known.find(id);
    if (device == known.end() || device->second.numa.empty()) {
      devices[-1].push_back(id);
      continue;
    }
    for (const int64_t node : device->second.numa) devices[node].push_back(id);
  }
}

inline std::optional<std::vector<std::string>> NoPreference(const PreferenceQuery&) {
  return std::nullopt;
}

inline topologymanager::TopologyHint OnNodes(uint64_t mask_bits) {
  return {.affinity = NumaMask::FromBits(mask_bits), .preferred = true};
}

inline topologymanager::TopologyHint Anywhere() { return {}; }

}  // namespace alignd::devicemanager
