#include "moving/device_merge.h"

#include <set>
#include <string>

#include "mirror/kubelet_checkpoint.h"
#include "mirror/marker.h"

namespace alignd::moving {
namespace {

// The ids that were healthy count in the file, and nothing else of a device.
void AddRegistered(const checkpoint::DeviceCheckpoint& from, devicemanager::DeviceState& state) {
  for (const auto& [resource, ids] : from.registered) {
    if (state.resources.contains(resource)) continue;
    devicemanager::Resource& added = state.resources[resource];
    for (const std::string& id : ids) added.devices[id].healthy = true;
  }
}

std::set<std::string> ResourcesOf(const checkpoint::DeviceCheckpoint& file) {
  std::set<std::string> resources;
  for (const auto& [resource, ids] : file.registered) resources.insert(resource);
  for (const auto& [key, allocated] : file.allocations) {
    for (const auto& [resource, allocation] : allocated) resources.insert(resource);
  }
  return resources;
}

}  // namespace

devicemanager::DeviceState MergedDevices(const checkpoint::DeviceCheckpoint& of_alignd,
                                         const checkpoint::DeviceCheckpoint& of_kubelet) {
  devicemanager::DeviceState merged;
  AddRegistered(of_alignd, merged);
  AddRegistered(of_kubelet, merged);
  merged.allocations = of_alignd.allocations;
  const checkpoint::DeviceCheckpoint rest = mirror::WithoutMirrors(of_kubelet, &mirror::HasMarker);
  const std::set<std::string> alignds = ResourcesOf(of_alignd);
  for (const auto& [key, resources] : rest.allocations) {
    for (const auto& [resource, allocation] : resources) {
      if (alignds.contains(resource)) continue;
      merged.allocations[key][resource] = allocation;
    }
  }
  return merged;
}

}  // namespace alignd::moving
