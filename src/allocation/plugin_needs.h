// What a pod needs of device plugins: that they have registered, and their answers.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "alignd/admission/node_state.h"
#include "alignd/base/result.h"
#include "alignd/pod/pod.h"
#include "allocation/admission_request.h"
#include "allocation/device_plugins.h"
#include "allocation/inventory_queue.h"
#include "allocation/kubelet_allocation.h"
#include "allocation/outcome.h"
#include "allocation/reservation.h"

namespace alignd::allocation {

// The answer to a request has to wait for the device plugin of this resource. Empty: it waits in
// the WaitQueue, for resources that other pods are assigned.
struct PluginWait {
  std::string resource;
  Error why;
};

// An answer that needs no decision.
using EarlyAnswer = std::variant<Outcome, PluginWait>;

// Why the plugin of that resource is to be waited for; nullopt: it has registered and `devices` has
// its devices, or the time to wait for it is over.
std::optional<PluginWait> WaitFor(const std::string& resource,
                                  const devicemanager::DeviceState& devices,
                                  const DevicePlugins& plugins, const InventoryQueue& inventory);

// The pod has to wait: a container needs devices of a resource that alignd knows, and whose plugin
// is away. Devices that are assigned already need no plugin.
std::optional<PluginWait> AwaitedPlugin(const admission::NodeState& state,
                                        const AdmissionRequest& request,
                                        const DevicePlugins& plugins,
                                        const InventoryQueue& inventory);

// Devices of a resource that alignd does not know: its plugin has not registered since alignd's
// start, or serves the kubelet alone.
struct UnknownDevices {
  std::string container;
  std::string resource;
};

// Those that the pod's containers request. `not_devices`: resources that no plugin serves.
std::vector<UnknownDevices> FindUnknownDevices(const admission::NodeState& state,
                                               const AdmissionRequest& request,
                                               const std::set<std::string>& not_devices);

// The resource that AnswerWithoutDevices refused with this message; empty: none.
std::string UnknownDeviceIn(const std::string& message);

// The answer if the pod (`only`: that container of it, if not empty) would start without such
// devices: the kubelet's own plugins have not given them to it either. `learned` is set if
// `unknown`, which was found in `devices`, is not empty. Differs: the kubelet ignores a resource
// that no plugin has registered, and starts the container without it (manager.go, Allocate).
std::optional<EarlyAnswer> AnswerWithoutDevices(
    const std::vector<UnknownDevices>& unknown, const devicemanager::DeviceState& devices,
    const std::optional<KubeletAllocation::Learned>& learned, const std::string& only,
    const DevicePlugins& plugins, const InventoryQueue& inventory);

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
