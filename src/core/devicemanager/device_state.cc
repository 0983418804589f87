#include "alignd/devicemanager/device_state.h"

namespace alignd::devicemanager {

std::set<std::string> DeviceAllocation::Ids() const {
  std::set<std::string> ids;
  for (const auto& [node, on_node] : devices) ids.insert(on_node.begin(), on_node.end());
  return ids;
}

const DeviceAllocation* DeviceState::Find(const ContainerKey& key,
                                          const std::string& resource) const {
  const auto held = allocations.find(key);
  if (held == allocations.end()) return nullptr;
  const auto allocation = held->second.find(resource);
  return allocation == held->second.end() ? nullptr : &allocation->second;
}

std::set<std::string> DeviceState::AllocatedIds(const std::string& resource) const {
  std::set<std::string> ids;
  for (const auto& [key, held] : allocations) {
    if (const auto allocation = held.find(resource); allocation != held.end()) {
      ids.merge(allocation->second.Ids());
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
