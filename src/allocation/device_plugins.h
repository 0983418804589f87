// The interface by which allocation asks device plugins, and the one by which they tell what they
// have.
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
  // Errors: kUnavailable (no plugin, or it died), kDeadlineExceeded, kInvalidArgument (an answer
  // that makes no sense); each names the resource.
  virtual void Allocate(const std::string& resource, std::vector<std::string> ids,
                        std::function<void(Result<std::string>)> done) = 0;

  // nullopt: no preference, or the plugin failed or was late.
  virtual void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query,
      std::function<void(std::optional<std::vector<std::string>>)> done) = 0;

  virtual void PreStartContainer(const std::string& resource, std::vector<std::string> ids,
                                 std::function<void(Result<Done>)> done) = 0;

  // Why a container that wants the resource is to wait: its plugin is not there, but may still come
  // (kUnavailable). nullopt: the plugin is there, or has been waited for long enough.
  virtual std::optional<Error> Awaited(const std::string& resource) const = 0;
};

// Thread-safe. What the plugins announced.
class InventorySink {
 public:
  virtual ~InventorySink() = default;

  // Replaces what is known of the resource.
  virtual void SetResource(std::string name, devicemanager::Resource resource) = 0;
  // The resource is gone (its plugin has been away for longer than the grace period).
  virtual void RemoveResource(const std::string& name) = 0;
};

}  // namespace alignd::allocation
