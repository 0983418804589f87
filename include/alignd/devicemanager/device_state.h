// The devices that plugins reported, and the devices that each container is allocated.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "alignd/base/shared_map.h"
#include "alignd/pod/pod.h"

namespace alignd::devicemanager {

struct Device {
  bool healthy = true;
  std::vector<int64_t> numa;  // NUMA node ids as the plugin reported them; empty: no topology

  friend bool operator==(const Device&, const Device&) = default;
};

// One extended resource. Not registered: known from the checkpoint only, without a plugin.
struct Resource {
  bool registered = false;
  bool prefers_allocation = false;        // the plugin implements GetPreferredAllocation
  bool pre_start_required = false;        // the plugin requires PreStartContainer
  std::map<std::string, Device> devices;  // by id

  friend bool operator==(const Resource&, const Resource&) = default;
};

// NUMA node id -> device ids; -1 for devices without topology. A device on two nodes is under both.
// Source: kubelet pkg/kubelet/cm/devicemanager/checkpoint, DevicesPerNUMA.
using DevicesPerNuma = std::map<int64_t, std::vector<std::string>>;

// The devices of one resource that a container is allocated.
struct DeviceAllocation {
  DevicesPerNuma devices;  // id lists sorted
  // The plugin's answer: a serialised v1beta1.ContainerAllocateResponse. Opaque to the core. Empty
  // until the plugin has answered.
  std::string response;

  std::set<std::string> Ids() const;

  friend bool operator==(const DeviceAllocation&, const DeviceAllocation&) = default;
};

// A value. Which devices of init containers later containers of the pod can reuse is not stored: it
// follows from the allocations (ReusableIds).
struct DeviceState {
  SharedMap<std::string, Resource> resources;  // by resource name
  // Container -> resource -> devices. Never an empty inner map.
  SharedMap<ContainerKey, std::map<std::string, DeviceAllocation>> allocations;
  // Container -> resource -> ids that running containers claim against each other
  // (admission::Adopt): allocated to no container, and not free. Not saved.
  SharedMap<ContainerKey, std::map<std::string, std::set<std::string>>> withheld = {};

  // The container's devices of that resource, or null.
  const DeviceAllocation* Find(const ContainerKey& key, const std::string& resource) const;
  // All device ids of the resource that are allocated to a container, or withheld.
  std::set<std::string> AllocatedIds(const std::string& resource) const;
  // The ids that are allocated to a container of the pod.
  std::set<std::string> PodIds(const std::string& pod_uid, const std::string& resource) const;

  friend bool operator==(const DeviceState&, const DeviceState&) = default;
};

}  // namespace alignd::devicemanager
