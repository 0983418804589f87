// What a pod needs of device plugins: that they have registered, and their answers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "allocation/device_plugins.h"
#include "allocation/reservation.h"

namespace alignd::allocation {

// Why the pod has to wait: a container needs devices of a plugin that has not registered yet.
// Devices that are assigned already need no plugin.
std::optional<Error> AwaitedPlugin(const admission::NodeState& state,
                                   const AdmissionRequest& request, const DevicePlugins& plugins);

// One call of Allocate.
struct PluginAsk {
  ContainerKey key;
  std::string resource;
  std::vector<std::string> ids;
};

// The calls of Allocate that `next` needs: for newly reserved devices, and for devices that were
// restored without an answer in containers that are not in `admitted`. The latter happens after a
// crash between the plugin's answer and the save. A plugin whose answer is empty is asked again
// after a restart.
std::vector<PluginAsk> PluginAsks(const Pod& pod, const admission::NodeState& next,
                                  const Reservation& reservation,
                                  const std::set<ContainerKey>& admitted);

}  // namespace alignd::allocation
