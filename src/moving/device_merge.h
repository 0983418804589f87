// The kubelet's device checkpoint after the way back.
#pragma once

#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/devicemanager/device_state.h"

namespace alignd::moving {

// What the kubelet's file has to say when the kubelet manages all devices again: alignd's
// allocations with the plugins' answers, and those that the kubelet's own plugins have made. What
// the kubelet allocated from alignd's mirror is left out: an entry with a placeholder would start a
// container without its devices. Without an entry, the kubelet allocates devices when the container
// is created. Of a resource whose plugin was alignd's,
// the kubelet's entries are out of date, and none is used.
devicemanager::DeviceState MergedDevices(const checkpoint::DeviceCheckpoint& of_alignd,
                                         const checkpoint::DeviceCheckpoint& of_kubelet);

}  // namespace alignd::moving
