// Records what device plugins announced, and waits for it.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "alignd/devicemanager/device_state.h"
#include "allocation/device_plugins.h"
#include "sync/mutex.h"

namespace alignd::testing {

// Thread-safe.
class FakeInventory : public allocation::InventorySink {
 public:
  using Resources = std::map<std::string, devicemanager::Resource>;

  void SetResource(std::string name, devicemanager::Resource resource) override {
    const MutexLock lock(mutex_);
    ++changes_;
    resources_[std::move(name)] = std::move(resource);
    changed_.NotifyAll();
  }

  void RemoveResource(const std::string& name) override {
    const MutexLock lock(mutex_);
    ++changes_;
    resources_.erase(name);
    changed_.NotifyAll();
  }

  Resources resources() const {
    const MutexLock lock(mutex_);
    return resources_;
  }

  // The number of announcements.
  int changes() const {
    const MutexLock lock(mutex_);
    return changes_;
  }

  // Whether `is_so` was true before `timeout` was over.
  bool WaitUntil(const std::function<bool(const Resources&)>& is_so,
                 std::chrono::milliseconds timeout = std::chrono::seconds(20)) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const MutexLock lock(mutex_);
    while (!is_so(resources_)) {
      if (!changed_.WaitUntil(mutex_, deadline)) return is_so(resources_);
    }
    return true;
  }

  // The ids of the resource's healthy devices; none where there is no such resource.
  static std::set<std::string> HealthyIds(const Resources& resources, const std::string& name) {
    std::set<std::string> ids;
    const auto resource = resources.find(name);
    if (resource == resources.end()) return ids;
    for (const auto& [id, device] : resource->second.devices) {
      if (device.healthy) ids.insert(id);
    }
    return ids;
  }

  // Waits until exactly these devices of the resource are healthy.
  bool WaitForHealthy(const std::string& name, const std::set<std::string>& ids) {
    return WaitUntil([&](const Resources& resources) {
      return resources.contains(name) && HealthyIds(resources, name) == ids;
    });
  }

 private:
  mutable Mutex mutex_;
  CondVar changed_;
  Resources resources_ GUARDED_BY(mutex_);
  int changes_ GUARDED_BY(mutex_) = 0;
};

}  // namespace alignd::testing
