// Announcements of device plugins on their way to the decision thread.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>

#include "alignd/devicemanager/device_state.h"
#include "sync/mutex.h"

namespace alignd::allocation {

// By resource; nullopt: the resource was removed.
using InventoryChanges = std::map<std::string, std::optional<devicemanager::Resource>>;

// Keeps the newest announcement of each resource, so that a plugin that floods alignd costs one
// change between two decisions. One thread at a time, except for Announce.
class InventoryQueue {
 public:
  // True if it is the first announcement since the last Take. Thread-safe.
  bool Announce(const std::string& name, std::optional<devicemanager::Resource> resource);

  struct Taken {
    InventoryChanges changes;
    // Resources whose plugins have registered for the first time, or again after a removal. They
    // are not in `changes` but kept until TakeArrived, with what is announced of them meanwhile.
    std::set<std::string> arriving;
  };
  Taken Take();

  // May lack some: the plugin was removed, came again, and has arrived already.
  InventoryChanges TakeArrived(const std::set<std::string>& resources);

  // The next announcement of the resource is taken for a first one.
  void ArriveAgain(const std::string& resource) { seen_.erase(resource); }

  // Whether the resource's plugin has announced devices that are not in the state yet.
  bool IsArriving(const std::string& resource) const;

 private:
  mutable Mutex mutex_;
  InventoryChanges announced_ GUARDED_BY(mutex_);  // since the last Take

  InventoryChanges arriving_;
  std::set<std::string> seen_;  // resources with a plugin
};

}  // namespace alignd::allocation
