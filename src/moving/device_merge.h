// The kubelet's device checkpoint after the way back.
#pragma once

#include <string>
#include <vector>

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/devicemanager/device_state.h"

namespace alignd::moving {

struct MergedState {
  devicemanager::DeviceState state;
  // Entries of the kubelet's own plugins that are out of date and left out, one sentence each.
  std::vector<std::string> left_out;
};

// What the kubelet's file has to say when the kubelet manages all devices again: alignd's
// allocations with the plugins' answers, and those that the kubelet's own plugins have made. What
// the kubelet allocated from alignd's mirror is left out: an entry with a placeholder would start a
// container without its devices. Without an entry, the kubelet allocates devices when the container
// is created. Of a resource whose plugin was alignd's,
// the kubelet's entries are from before the plugin moved to alignd, or from after it moved back:
// one whose container or devices alignd knows is out of date, and another one is kept.
MergedState MergedDevices(const checkpoint::DeviceCheckpoint& of_alignd,
                          const checkpoint::DeviceCheckpoint& of_kubelet);

// Whether the file has an allocation from alignd's mirror.
bool HasPlaceholder(const checkpoint::DeviceCheckpoint& of_kubelet);

}  // namespace alignd::moving
