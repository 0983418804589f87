#include "allocation/kubelet_devices.h"

#include <utility>

#include "host/file.h"

namespace alignd::allocation {

using checkpoint::DeviceCheckpoint;
using devicemanager::DeviceAllocation;

Result<DeviceCheckpoint> ReadKubeletCheckpoint(const std::filesystem::path& file) {
  const Result<std::string> text = host::ReadFile(file);
  if (!text.ok()) return text.error();
  Result<DeviceCheckpoint> read = checkpoint::ParseDeviceCheckpoint(*text);
  if (!read.ok()) return Error{read.error().code, file.string() + ": " + read.error().message};
  return read;
}

CountedPod CountsOf(const DeviceCheckpoint& kubelets, const std::string& pod_uid) {
  CountedPod counted;
  for (const auto& [key, resources] : kubelets.allocations) {
    if (key.pod_uid != pod_uid) continue;
    for (const auto& [resource, allocation] : resources) {
      counted[key.container][resource] = allocation.Ids();
    }
  }
  return counted;
}

DeviceCheckpoint OfItsPlugins(DeviceCheckpoint kubelets,
                              const std::function<bool(const std::string&)>& is_ours) {
  SharedMap<ContainerKey, std::map<std::string, DeviceAllocation>> of_its_plugins;
  for (const auto& [key, resources] : kubelets.allocations) {
    std::map<std::string, DeviceAllocation> held = resources;
    std::erase_if(held, [&](const auto& entry) { return is_ours(entry.second.response); });
    if (!held.empty()) of_its_plugins[key] = std::move(held);
  }
  kubelets.allocations = std::move(of_its_plugins);
  return kubelets;
}

TakenOver TakeOver(const DeviceCheckpoint& of_its_plugins, const std::string& resource,
                   const checkpoint::Bindings& bindings, admission::NodeState& state) {
  TakenOver taken;
  std::map<std::string, std::string> pod_of;  // by device id
  for (const auto& [key, held] : state.devices.allocations) {
    const auto allocation = held.find(resource);
    if (allocation == held.end()) continue;
    for (const std::string& id : allocation->second.Ids()) pod_of.emplace(id, key.pod_uid);
  }
  for (const auto& [key, held] : of_its_plugins.allocations) {
    const auto given = held.find(resource);
    if (given == held.end()) continue;
    const std::set<std::string> ids = given->second.Ids();
    const DeviceAllocation* const known = state.devices.Find(key, resource);
    if (known != nullptr && known->Ids() != ids) continue;  // decided anew since
    const auto bound = bindings.find(key);
    if (bound != bindings.end() && bound->second.contains(resource)) continue;
    std::string others;
    for (const std::string& id : ids) {
      const auto other = pod_of.find(id);
      if (other == pod_of.end() || other->second == key.pod_uid) continue;
      others += (others.empty() ? "" : ", ") + id + " is held by pod " + other->second;
    }
    if (ids.empty() || !others.empty()) {
      taken.contradictory.push_back(
          "the kubelet gave container " + key.container + " of pod " + key.pod_uid + " " +
          (ids.empty() ? "none of its devices" : "devices of which " + others));
      continue;
    }
    for (const std::string& id : ids) {
      pod_of.emplace(id, key.pod_uid);
      taken.bound[key][resource][id] = id;
    }
    if (known == nullptr) state.devices.allocations[key][resource] = given->second;
  }
  return taken;
}

}  // namespace alignd::allocation
