// What the registry asks of one device plugin, however it is reached.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::deviceplugin {

// How long a plugin may take. The kubelet gives it forever, except for the dial (10 s) and
// PreStartContainer (30 s); but its own call to us ends after 2 minutes, in which a container may
// need preferences several times and one Allocate.
struct PluginDeadlines {
  std::chrono::milliseconds connect{10'000};  // dial and GetDevicePluginOptions together
  std::chrono::milliseconds preferred{10'000};
  std::chrono::milliseconds allocate{60'000};
  std::chrono::milliseconds pre_start{30'000};
};

// Thread-safe. No method blocks, except the destructor. Every `done` runs exactly once, on any
// thread, and must not block; after Close it runs with kUnavailable.
// Errors of all calls: kUnavailable (the plugin is gone, or says no), kDeadlineExceeded; the
// resource is in front of the message.
class PluginConnection {
 public:
  PluginConnection() = default;
  PluginConnection(const PluginConnection&) = delete;
  PluginConnection& operator=(const PluginConnection&) = delete;
  // Closes, then waits until the last callback has returned. Never to be run by a callback.
  virtual ~PluginConnection() = default;

  // Dials and asks for the plugin's options.
  virtual void Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) = 0;

  // Follows the device list: `on_list` for every message, in order, then `on_end` once. To be
  // called once.
  virtual void Watch(std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
                     std::function<void(Error)> on_end) = 0;

  // The answer as the plugin gave it.
  virtual void Allocate(const std::vector<std::string>& ids,
                        std::function<void(Result<v1beta1::AllocateResponse>)> done) = 0;

  // The answer as the plugin gave it; kDeadlineExceeded after `within`.
  virtual void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query, std::chrono::milliseconds within,
      std::function<void(Result<v1beta1::PreferredAllocationResponse>)> done) = 0;

  virtual void PreStartContainer(const std::vector<std::string>& ids,
                                 std::function<void(Result<Done>)> done) = 0;

  // Cancels all calls and the stream; later ones fail at once.
  virtual void Close() = 0;
};

}  // namespace alignd::deviceplugin
