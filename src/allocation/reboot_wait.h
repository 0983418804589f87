// After a reboot, containers wait for the plugins of the devices that they are assigned.
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <set>
#include <string>

#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"
#include "allocation/boot_record.h"
#include "allocation/device_plugins.h"
#include "allocation/inventory_queue.h"
#include "allocation/plugin_needs.h"

namespace alignd::allocation {

// Before its plugin has prepared it, a device may not exist. After a restart of alignd alone the
// devices are there. One thread at a time.
class RebootWait {
 public:
  // Runs a task that may wait for the disk, later and on another thread.
  using OnDisk = std::function<void(std::function<void()> task)>;

  // `record` outlives this object; null: nothing waits. `devices`: the state that was loaded.
  // The tasks of `on_disk` end before this object is destroyed.
  RebootWait(BootRecord* record, const devicemanager::DeviceState& devices, OnDisk on_disk);

  // The plugin has registered since the boot, or the resource was removed.
  void PluginSettled(const std::string& resource) { unsettled_.erase(resource); }

  // Has the boot recorded once no assigned device of `devices` waits for its plugin.
  void Settle(const devicemanager::DeviceState& devices);

  // The answer for a container that is assigned a device whose plugin has not registered since the
  // boot; nullopt: there is none. `inventory` has plugins that have just registered.
  std::optional<EarlyAnswer> Check(const ContainerKey& key,
                                   const devicemanager::DeviceState& devices,
                                   const InventoryQueue& inventory,
                                   const DevicePlugins& plugins) const;

 private:
  BootRecord* const record_;  // used by tasks of `on_disk_` only, after construction
  const OnDisk on_disk_;
  std::atomic<bool> is_settled_;     // or about to be
  std::set<std::string> unsettled_;  // resources
  bool failure_logged_ = false;      // by a task of `on_disk_`
};

}  // namespace alignd::allocation
