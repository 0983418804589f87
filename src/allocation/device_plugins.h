// The interface through which allocation calls device plugins, and the one through which they
// report their inventory.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/devicemanager/device_state.h"

namespace alignd::allocation {

// Thread-safe. Every call returns at once; `done` runs exactly once, on any thread, within the
// configured deadline.
class DevicePlugins {
 public:
  virtual ~DevicePlugins() = default;

  // Answers with a serialised v1beta1.ContainerAllocateResponse.
  // Errors: kUnavailable (no plugin, or it died), kDeadlineExceeded, kInvalidArgument (a malformed
  // answer); each names the resource.
  virtual void Allocate(const std::string& resource, std::vector<std::string> ids,
                        std::function<void(Result<std::string>)> done) = 0;

  // nullopt: no preference, or the plugin failed or exceeded its deadline.
  virtual void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query,
      std::function<void(std::optional<std::vector<std::string>>)> done) = 0;

  virtual void PreStartContainer(const std::string& resource, std::vector<std::string> ids,
                                 std::function<void(Result<Done>)> done) = 0;

  // Why a container that needs the resource has to wait: the plugin has not registered yet, or
  // is disconnected (kUnavailable). nullopt: it has registered, or the time to wait for it is over.
  virtual std::optional<Error> Awaited(const std::string& resource) const = 0;
};

// Receives what the plugins announce. Thread-safe.
class InventorySink {
 public:
  virtual ~InventorySink() = default;

  // Replaces the resource's devices.
  virtual void SetResource(std::string name, devicemanager::Resource resource) = 0;
  // The resource is removed: its plugin has been away for longer than the grace period.
  virtual void RemoveResource(const std::string& name) = 0;
};

}  // namespace alignd::allocation
