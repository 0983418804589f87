// `DeviceState` and the text of kubelet_internal_checkpoint.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/base/shared_map.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"

namespace alignd::checkpoint {

// What a kubelet_internal_checkpoint says. A value.
struct DeviceCheckpoint {
  // Container -> resource -> assigned devices, with the plugin's answer as bytes, not parsed.
  SharedMap<ContainerKey, std::map<std::string, devicemanager::DeviceAllocation>> allocations;
  // Resource -> ids that were healthy when the file was written, sorted.
  std::map<std::string, std::vector<std::string>> registered;

  // What the kubelet starts with: the allocations, and the resources without any device until
  // their plugins register.
  // Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, readCheckpoint.
  devicemanager::DeviceState ToState() const;

  friend bool operator==(const DeviceCheckpoint&, const DeviceCheckpoint&) = default;
};

// The file with the content that kubelet 1.36 would write. One line, no line end.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, writeCheckpoint.
// Differs: entries and ids are sorted, the kubelet's order is random. An allocation that the plugin
// has not answered yet is written with an empty answer; the kubelet omits it.
std::string FormatDeviceCheckpoint(const devicemanager::DeviceState& state);

// Verifies the checksum; 0 or none is not accepted. Of two entries for the same container and
// resource, the later one is used. A file from before 1.20, whose DeviceIDs are plain lists, is
// refused as in kubelet 1.36.
// Errors: kCorrupt, naming what is wrong and the remedy. (The kubelet logs it and starts with all
// devices free.)
// Source: as above, readCheckpoint; pod_devices.go, fromCheckpointData.
// Differs: the kubelet drops an entry whose AllocResp is not a ContainerAllocateResponse; alignd
// does not parse the bytes.
Result<DeviceCheckpoint> ParseDeviceCheckpoint(std::string_view text);

}  // namespace alignd::checkpoint
