// One device plugin as the registry uses it, over any transport.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/devicemanager/device_policy.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::deviceplugin {

// Deadlines of a plugin's calls. The kubelet has deadlines only for the dial (10 s) and
// PreStartContainer (30 s). But its own CRI call to alignd ends after 2 minutes; in that time a
// container may need several preferences and one Allocate.
struct PluginDeadlines {
  std::chrono::milliseconds connect{10'000};  // dial and GetDevicePluginOptions together
  std::chrono::milliseconds preferred{10'000};
  std::chrono::milliseconds allocate{60'000};
  std::chrono::milliseconds pre_start{30'000};
};

// Thread-safe. No method blocks. Owned by shared pointers. Every `done` runs exactly once, on any
// thread, and must not block; after Close it runs with kUnavailable.
// Errors of all calls: kUnavailable (the connection has ended, or the plugin returned an error),
// kDeadlineExceeded. The message begins with the resource.
class PluginConnection : public std::enable_shared_from_this<PluginConnection> {
 public:
  PluginConnection() = default;
  PluginConnection(const PluginConnection&) = delete;
  PluginConnection& operator=(const PluginConnection&) = delete;
  // Runs after Close. Implementations may wait for their callbacks here, so that a callback must
  // not run the destructor.
  virtual ~PluginConnection() = default;

  // Dials and asks for the plugin's options.
  virtual void Connect(std::function<void(Result<v1beta1::DevicePluginOptions>)> done) = 0;

  // Follows the device list: `on_list` for every message, in order, then `on_end` once. Must be
  // called once at most.
  virtual void Watch(std::function<void(const v1beta1::ListAndWatchResponse&)> on_list,
                     std::function<void(Error)> on_end) = 0;

  // `done` gets the plugin's answer unchecked.
  virtual void Allocate(const std::vector<std::string>& ids,
                        std::function<void(Result<v1beta1::AllocateResponse>)> done) = 0;

  // `done` gets the plugin's answer unchecked; kDeadlineExceeded after `within`.
  virtual void GetPreferredAllocation(
      const devicemanager::PreferenceQuery& query, std::chrono::milliseconds within,
      std::function<void(Result<v1beta1::PreferredAllocationResponse>)> done) = 0;

  virtual void PreStartContainer(const std::vector<std::string>& ids,
                                 std::function<void(Result<Done>)> done) = 0;

  // Cancels all calls and the stream; later ones fail at once.
  virtual void Close() = 0;
};

// Makes a connection to the plugin of that resource on that socket; sends nothing yet.
// Errors: kInvalidArgument: not a path of a socket.
using MakeConnection = std::function<Result<std::unique_ptr<PluginConnection>>(
    const std::string& resource, const std::filesystem::path& socket)>;

}  // namespace alignd::deviceplugin
