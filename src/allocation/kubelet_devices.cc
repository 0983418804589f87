#include "allocation/kubelet_devices.h"

#include <map>
#include <set>
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

KubeletAllocatedPod CountsOf(const DeviceCheckpoint& kubelets, const std::string& pod_uid) {
  KubeletAllocatedPod counted;
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
                   const checkpoint::Bindings& bindings, admission::NodeState& state,
                   const ContainerKey* only) {
  TakenOver taken;
  std::map<std::string, std::string> pod_of;  // by device id
  for (const auto& [key, held] : state.devices.allocations) {
    const auto allocation = held.find(resource);
    if (allocation == held.end()) continue;
    for (const std::string& id : allocation->second.Ids()) pod_of.emplace(id, key.pod_uid);
  }
  for (const auto& [key, held] : of_its_plugins.allocations) {
    const auto given = held.find(resource);
    if (given == held.end() || (only != nullptr && key != *only)) continue;
    const DeviceAllocation* const known = state.devices.Find(key, resource);
    if (known != nullptr && known->Ids() != given->second.Ids()) continue;  // decided anew since
    const auto bound = bindings.find(key);
    if (bound != bindings.end() && bound->second.contains(resource)) continue;
    DeviceAllocation ours = given->second;
    std::set<std::string> others;
    for (auto& [numa, ids] : ours.devices) {
      std::erase_if(ids, [&, &uid = key.pod_uid](const std::string& id) {
        const auto place = pod_of.emplace(id, uid).first;
        if (place->second == uid) return false;
        others.insert(id + " is held by pod " + place->second);
        return true;
      });
    }
    std::erase_if(ours.devices, [](const auto& entry) { return entry.second.empty(); });
    for (const std::string& other : others) {
      taken.contradictory.push_back("the kubelet gave it to container " + key.container +
                                    " of pod " + key.pod_uid + ", but " + other);
    }
    if (ours.devices.empty()) continue;
    for (const std::string& id : ours.Ids()) taken.bound[key][resource][id] = id;
    if (known == nullptr) state.devices.allocations[key][resource] = std::move(ours);
  }
  return taken;
}

}  // namespace alignd::allocation
