// What a pod needs of device plugins: that they are there, and their answers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/counted_devices.h"
#include "allocation/device_plugins.h"
#include "allocation/reservation.h"

namespace alignd::allocation {

// Why the pod is to wait: a plugin of which one of its containers is to get devices now is not
// there yet. What the pod holds it has, whatever is awaited.
std::optional<Error> AwaitedPlugin(const admission::NodeState& state, const Pod& pod,
                                   const KubeletAllocatedPod& counted,
                                   const DevicePlugins& plugins);

// One Allocate.
struct PluginAsk {
  ContainerKey key;
  std::string resource;
  std::vector<std::string> ids;
};

// What plugins are to be asked before the pod has what `next` gives it: for what is newly reserved,
// and for devices restored without an answer in containers that are not in `granted` (a crash came
// between the plugin's answer and the disk; a plugin's answer may be empty, then it is asked once
// more in our next life).
std::vector<PluginAsk> PluginAsks(const Pod& pod, const admission::NodeState& next,
                                  const Reservation& reservation,
                                  const std::set<ContainerKey>& granted);

}  // namespace alignd::allocation
