#include "moving/device_merge.h"

#include <algorithm>
#include <map>
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

// Resource -> the ids that containers are assigned.
std::map<std::string, std::set<std::string>> AssignedIds(const checkpoint::DeviceCheckpoint& file) {
  std::map<std::string, std::set<std::string>> assigned;
  for (const auto& [key, resources] : file.allocations) {
    for (const auto& [resource, allocation] : resources) {
      for (const std::string& id : allocation.Ids()) assigned[resource].insert(id);
    }
  }
  return assigned;
}

}  // namespace

MergedState MergedDevices(const checkpoint::DeviceCheckpoint& of_alignd,
                          const checkpoint::DeviceCheckpoint& of_kubelet) {
  MergedState merged;
  AddRegistered(of_alignd, merged.state);
  AddRegistered(of_kubelet, merged.state);
  merged.state.allocations = of_alignd.allocations;
  const checkpoint::DeviceCheckpoint rest = mirror::WithoutMirrors(of_kubelet, &mirror::HasMarker);
  auto assigned = AssignedIds(of_alignd);
  for (const auto& [key, resources] : rest.allocations) {
    for (const auto& [resource, allocation] : resources) {
      const devicemanager::DeviceAllocation* const ours = merged.state.Find(key, resource);
      if (ours != nullptr && ours->Ids() == allocation.Ids()) continue;  // alignd took it over
      const std::set<std::string>& known = assigned[resource];
      const bool is_taken = std::ranges::any_of(
          allocation.Ids(), [&](const std::string& id) { return known.contains(id); });
      if (ours == nullptr && !is_taken) {
        merged.state.allocations[key][resource] = allocation;
        continue;
      }
      merged.left_out.push_back("pod " + key.pod_uid + " container " + key.container +
                                ": what the "
                                "kubelet's own plugin of " +
                                resource +
                                " has allocated is left out: alignd has assigned the container or "
                                "its devices otherwise since");
    }
  }
  return merged;
}

bool HasPlaceholder(const checkpoint::DeviceCheckpoint& of_kubelet) {
  return mirror::WithoutMirrors(of_kubelet, &mirror::HasMarker).allocations !=
         of_kubelet.allocations;
}

}  // namespace alignd::moving
