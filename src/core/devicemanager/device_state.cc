#include "alignd/devicemanager/device_state.h"

namespace alignd::devicemanager {

std::set<std::string> DeviceAllocation::Ids() const {
  std::set<std::string> ids;
  for (const auto& [node, on_node] : devices) ids.insert(on_node.begin(), on_node.end());
  return ids;
}

const DeviceAllocation* DeviceState::Find(const ContainerKey& key,
                                          const std::string& resource) const {
  const auto by_resource = allocations.find(key);
  if (by_resource == allocations.end()) return nullptr;
  const auto allocation = by_resource->second.find(resource);
  return allocation == by_resource->second.end() ? nullptr : &allocation->second;
}

std::set<std::string> DeviceState::AllocatedIds(const std::string& resource) const {
  std::set<std::string> ids;
  for (const auto& [key, by_resource] : allocations) {
    if (const auto allocation = by_resource.find(resource); allocation != by_resource.end()) {
      ids.merge(allocation->second.Ids());
    }
  }
  for (const auto& [key, by_resource] : withheld) {
    if (const auto claimed = by_resource.find(resource); claimed != by_resource.end()) {
      ids.insert(claimed->second.begin(), claimed->second.end());
    }
  }
  return ids;
}

std::set<std::string> DeviceState::PodIds(const std::string& pod_uid,
                                          const std::string& resource) const {
  std::set<std::string> ids;
  for (auto entry = allocations.lower_bound({pod_uid, ""});
       entry != allocations.end() && entry->first.pod_uid == pod_uid; ++entry) {
    if (const auto allocation = entry->second.find(resource); allocation != entry->second.end()) {
      ids.merge(allocation->second.Ids());
    }
  }
  return ids;
}

}  // namespace alignd::devicemanager
