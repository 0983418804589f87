// Requested and available devices, for hints and for allocation. Private to the module.
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

// The container's limits of resources that a plugin has registered or a container is allocated.
// Other resources are ignored.
// Source: kubelet pkg/kubelet/cm/devicemanager/topology_hints.go, getContainerDeviceRequest.
DeviceRequest RequestOf(const DeviceState& state, const Container& container);

// The devices that the pod needs at the same time: apps and sidecars together, or, if it is more,
// one init container with the sidecars that start before it. Source: topology_hints.go,
// getPodDeviceRequest; k8s.io/component-helpers/resource, PodLimits.
DeviceRequest RequestOf(const DeviceState& state, const Pod& pod);

// The resource's entry in the inventory, or an empty one that is not registered.
const Resource& InventoryOf(const DeviceState& state, const std::string& resource);

// The devices that can be allocated at all: healthy, and with a registered plugin.
DeviceIds HealthyIds(const Resource& resource);

// The devices of these that are not allocated.
DeviceIds FreeIds(const DeviceState& state, const std::string& resource);

// The device as the plugin reported it, or one without topology if the plugin no longer lists it.
// Differs: the kubelet dereferences the missing entry and panics.
const Device& DeviceOf(const Resource& resource, const std::string& id);

// The healthy devices of the pod's init containers that no other container of the pod is allocated.
// Later containers of the pod take these first.
// Differs: the kubelet keeps them in a table, which it loses at a restart and when it admits
// another pod in between; and it reuses unhealthy devices. Source: kubelet
// pkg/kubelet/cm/devicemanager/manager.go, Allocate (devicesToReuse).
DeviceIds ReusableIds(const DeviceState& state, const Pod& pod, const std::string& resource);

// Whether some device of the resource has a topology.
// Source: topology_hints.go, deviceHasTopologyAlignment.
bool HasTopology(const Resource& resource);

// a without b.
DeviceIds Difference(const DeviceIds& a, const DeviceIds& b);

}  // namespace alignd::devicemanager
