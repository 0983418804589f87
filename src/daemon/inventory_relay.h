// Connects the plugin registry to the allocation manager.
#pragma once

#include <string>
#include <utility>

#include "allocation/device_plugins.h"
#include "sync/mutex.h"

namespace alignd::daemon {

// The plugin registry reports inventories to the allocation manager, which in turn asks the
// registry. This object lets the registry exist before the manager. Thread-safe.
class InventoryRelay final : public allocation::InventorySink {
 public:
  // Null: reports are dropped.
  void ConnectTo(allocation::InventorySink* sink) {
    const MutexLock lock(mutex_);
    sink_ = sink;
  }
  void SetResource(std::string name, devicemanager::Resource resource) override {
    const MutexLock lock(mutex_);
    if (sink_ != nullptr) sink_->SetResource(std::move(name), std::move(resource));
  }
  void RemoveResource(const std::string& name) override {
    const MutexLock lock(mutex_);
    if (sink_ != nullptr) sink_->RemoveResource(name);
  }

 private:
  Mutex mutex_;
  allocation::InventorySink* sink_ GUARDED_BY(mutex_) = nullptr;
};

}  // namespace alignd::daemon
