// What is asked for and what is there to give: the questions that hints and allocation share.
// Private to the room.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"

namespace alignd::devicemanager {

using DeviceIds = std::set<std::string>;
using DeviceRequest = std::map<std::string, int64_t>;  // by resource name

// The container's limits of resources that some plugin has announced or some container holds. Other
// resources do not concern us.
// Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go, getContainerDeviceRequest.
DeviceRequest RequestOf(const DeviceState& state, const Container& container);

// What the pod needs at the same time: apps and sidecars together, or, if it is more, one init
// container with the sidecars that start before it.
// Source: topology_hints.go, getPodDeviceRequest; k8s.io/component-helpers/resource, PodLimits.
DeviceRequest RequestOf(const DeviceState& state, const Pod& pod);

// The resource's entry in the inventory, or an empty one that is not registered.
const Resource& InventoryOf(const DeviceState& state, const std::string& resource);

// The devices that may be given out at all: healthy, and the plugin is there.
DeviceIds HealthyIds(const Resource& resource);

// Those of them that no container holds.
DeviceIds FreeIds(const DeviceState& state, const std::string& resource);

// The device as announced, or one without topology if the plugin does not list it any more.
// Differs: the kubelet dereferences the missing entry and panics.
const Device& DeviceOf(const Resource& resource, const std::string& id);

// The healthy devices that init containers of the pod hold and no container holds that runs beside
// or after them: later containers of the pod take these first.
// Differs: the kubelet keeps this in a table, which it forgets on a restart and when another pod is
// admitted in between; and it hands on devices that are no longer healthy.
// Source: kubelet pkg/kubelet/cm/devicemanager/manager.go, Allocate (devicesToReuse).
DeviceIds ReusableIds(const DeviceState& state, const Pod& pod, const std::string& resource);

// Whether some device of the resource has a topology, wherever it lies.
// Source: topology_hints.go, deviceHasTopologyAlignment.
bool HasTopology(const Resource& resource);

// a without b.
DeviceIds Difference(const DeviceIds& a, const DeviceIds& b);

}  // namespace alignd::devicemanager
