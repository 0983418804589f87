#include "mirror/kubelet_checkpoint.h"

#include <map>
#include <set>
#include <utility>

#include "host/file.h"

namespace alignd::mirror {

using checkpoint::DeviceCheckpoint;
using devicemanager::DeviceAllocation;

Result<DeviceCheckpoint> ReadKubeletCheckpoint(const std::filesystem::path& file) {
  const Result<std::string> text = host::ReadFile(file);
  if (!text.ok()) return text.error();
  Result<DeviceCheckpoint> read = checkpoint::ParseDeviceCheckpoint(*text);
  if (!read.ok()) {
    return Error{read.error().code, file.string() + ": " + read.error().message,
                 "see in the kubelet's log whether it can write the file; alignd reads it again"};
  }
  return read;
}

KubeletAllocatedPod AllocatedTo(const DeviceCheckpoint& kubelets, const std::string& pod_uid) {
  KubeletAllocatedPod allocated;
  for (const auto& [key, resources] : kubelets.allocations) {
    if (key.pod_uid != pod_uid) continue;
    for (const auto& [resource, allocation] : resources) {
      allocated[key.container][resource] = allocation.Ids();
    }
  }
  return allocated;
}

DeviceCheckpoint WithoutMirrors(DeviceCheckpoint kubelets,
                                const std::function<bool(const std::string&)>& is_mirrors) {
  SharedMap<ContainerKey, std::map<std::string, DeviceAllocation>> of_plugins;
  for (const auto& [key, resources] : kubelets.allocations) {
    std::map<std::string, DeviceAllocation> rest = resources;
    std::erase_if(rest, [&](const auto& entry) { return is_mirrors(entry.second.response); });
    if (!rest.empty()) of_plugins[key] = std::move(rest);
  }
  kubelets.allocations = std::move(of_plugins);
  return kubelets;
}

TakenOver TakeOver(const DeviceCheckpoint& of_kubelets_plugins, const std::string& resource,
                   const checkpoint::Bindings& bindings, admission::NodeState& state,
                   const ContainerKey* only) {
  TakenOver taken;
  std::map<std::string, std::string> pod_of;  // by device id
  for (const auto& [key, resources] : state.devices.allocations) {
    const auto allocation = resources.find(resource);
    if (allocation == resources.end()) continue;
    for (const std::string& id : allocation->second.Ids()) pod_of.emplace(id, key.pod_uid);
  }
  for (const auto& [key, resources] : of_kubelets_plugins.allocations) {
    const auto theirs = resources.find(resource);
    if (theirs == resources.end() || (only != nullptr && key != *only)) continue;
    const DeviceAllocation* const known = state.devices.Find(key, resource);
    if (known != nullptr && known->Ids() != theirs->second.Ids()) continue;  // decided here since
    const auto bound = bindings.find(key);
    if (bound != bindings.end() && bound->second.contains(resource)) continue;
    DeviceAllocation ours = theirs->second;
    std::set<std::string> of_others;
    for (auto& [numa, ids] : ours.devices) {
      std::erase_if(ids, [&, &uid = key.pod_uid](const std::string& id) {
        const auto owner = pod_of.emplace(id, uid).first;
        if (owner->second == uid) return false;
        of_others.insert(id + " is assigned to pod " + owner->second);
        return true;
      });
    }
    std::erase_if(ours.devices, [](const auto& entry) { return entry.second.empty(); });
    for (const std::string& other : of_others) {
      taken.conflicts.push_back("the kubelet allocated it to container " + key.container +
                                " of pod " + key.pod_uid + ", but " + other);
    }
    if (ours.devices.empty()) continue;
    for (const std::string& id : ours.Ids()) taken.bound[key][resource][id] = id;
    if (known == nullptr) state.devices.allocations[key][resource] = std::move(ours);
  }
  return taken;
}

}  // namespace alignd::mirror
