// After a reboot, containers wait for the plugins of the devices that they are assigned.
#pragma once

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
  // `record` outlives this object; null: nothing waits. `devices`: the state that was loaded.
  RebootWait(BootRecord* record, const devicemanager::DeviceState& devices);

  // The plugin has registered since the boot, or the resource was removed.
  void PluginSettled(const std::string& resource) { unsettled_.erase(resource); }

  // Records the boot once no assigned device of `devices` waits for its plugin.
  void Settle(const devicemanager::DeviceState& devices);

  // The answer for a container that is assigned a device whose plugin has not registered since the
  // boot; nullopt: there is none. `inventory` has plugins that have just registered.
  std::optional<EarlyAnswer> Check(const ContainerKey& key,
                                   const devicemanager::DeviceState& devices,
                                   const InventoryQueue& inventory,
                                   const DevicePlugins& plugins) const;

 private:
  BootRecord* const record_;
  std::set<std::string> unsettled_;  // resources
  bool failure_logged_ = false;
};

}  // namespace alignd::allocation
