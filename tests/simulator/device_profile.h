// The devices and the answers of a simulated device plugin. Plain values and pure functions. The
// texts have the syntax of the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/base/result.h"
#include "deviceplugin/v1beta1/deviceplugin.pb.h"

namespace alignd::simulator {

struct SimulatedDevice {
  std::string id;
  std::vector<int64_t> numa;  // empty: no topology
  bool healthy = true;

  friend bool operator==(const SimulatedDevice&, const SimulatedDevice&) = default;
};

// A path on the host and one in the container. `flags`: permissions of a device node, "ro" or empty
// for a mount.
struct PathPair {
  std::string host;
  std::string container;
  std::string flags;

  friend bool operator==(const PathPair&, const PathPair&) = default;
};

// In the texts of an answer, `{id}` is a device's id, `{index}` its place in the list, and `{ids}`
// all allocated ids with commas. A text with `{id}` or `{index}` is repeated for each device.
struct DeviceProfile {
  std::filesystem::path directory;  // of kubelet.sock
  std::string resource;
  std::string version = "v1beta1";
  std::string socket;  // file name; empty: made of the resource name
  // If set: the plugin serves a socket there for a plugin watcher and does not register.
  std::filesystem::path registry;
  std::vector<SimulatedDevice> devices;

  std::vector<std::pair<std::string, std::string>> envs;  // name, value
  std::vector<PathPair> device_nodes;
  std::vector<PathPair> mounts;
  std::vector<std::pair<std::string, std::string>> annotations;
  std::vector<std::string> cdi_devices;  // "vendor/class={id}"

  bool prefers_allocation = false;
  bool pre_start_required = false;
  bool options_fail = false;  // GetDevicePluginOptions ends with an error

  // `socket`, or by default a name such as `nvidia.com_gpu.sock`.
  std::string SocketName() const;
};

// `ID[:numa=N[,N...]][:unhealthy]`; an id may contain colons, as PCI addresses do.
// Errors of all parsers: kInvalidArgument with the text.
Result<SimulatedDevice> ParseDevice(std::string_view text);

// `HOST:CONTAINER[:FLAGS]`.
Result<PathPair> ParsePathPair(std::string_view text);

// `NAME=VALUE`.
Result<std::pair<std::string, std::string>> ParseNameValue(std::string_view text);

v1beta1::ListAndWatchResponse ListOf(const std::vector<SimulatedDevice>& devices);

// Ids that the profile does not have have no index.
v1beta1::ContainerAllocateResponse AnswerTo(const DeviceProfile& profile,
                                            const v1beta1::ContainerAllocateRequest& request);

// The ids to include, then available ids from the end of the list. Without a preference, the lowest
// ids are allocated, so a test sees the difference.
v1beta1::ContainerPreferredAllocationResponse PreferenceFor(
    const DeviceProfile& profile, const v1beta1::ContainerPreferredAllocationRequest& request);

}  // namespace alignd::simulator
