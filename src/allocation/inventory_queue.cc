#include "allocation/inventory_queue.h"

#include <utility>

namespace alignd::allocation {

bool InventoryQueue::Announce(const std::string& name,
                              std::optional<devicemanager::Resource> resource) {
  const MutexLock lock(mutex_);
  const bool is_first = announced_.empty();
  announced_.insert_or_assign(name, std::move(resource));
  return is_first;
}

InventoryQueue::Taken InventoryQueue::Take() {
  Taken taken;
  {
    const MutexLock lock(mutex_);
    taken.changes.swap(announced_);
  }
  std::erase_if(taken.changes, [&](auto& entry) {
    auto& [name, resource] = entry;
    if (!resource) seen_.erase(name);
    const bool is_new = resource && resource->registered && seen_.insert(name).second;
    if (!is_new && !arriving_.contains(name)) return false;
    arriving_.insert_or_assign(name, std::move(resource));
    if (is_new) taken.arriving.insert(name);
    return true;
  });
  return taken;
}

bool InventoryQueue::IsArriving(const std::string& resource) const {
  if (arriving_.contains(resource)) return true;
  const MutexLock lock(mutex_);
  const auto announced = announced_.find(resource);
  return announced != announced_.end() && announced->second && announced->second->registered;
}

InventoryChanges InventoryQueue::TakeArrived(const std::set<std::string>& resources) {
  InventoryChanges arrived;
  for (const std::string& name : resources) {
    if (auto announced = arriving_.extract(name)) arrived.insert(std::move(announced));
  }
  return arrived;
}

}  // namespace alignd::allocation
