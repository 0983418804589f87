// Devices that plugins announced, and what each container holds of them.
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
  std::vector<int64_t> numa;  // NUMA node ids as the plugin gave them; empty: no topology

  friend bool operator==(const Device&, const Device&) = default;
};

// One extended resource. Not registered: known from the checkpoint only, its plugin is not there.
struct Resource {
  bool registered = false;
  bool prefers_allocation = false;        // the plugin implements GetPreferredAllocation
  bool pre_start_required = false;        // the plugin wants PreStartContainer
  std::map<std::string, Device> devices;  // by id

  friend bool operator==(const Resource&, const Resource&) = default;
};

// NUMA node id -> device ids; -1 for devices without topology. A device on two nodes is under both.
// Source: kubelet pkg/kubelet/cm/devicemanager/checkpoint, DevicesPerNUMA.
using DevicesPerNuma = std::map<int64_t, std::vector<std::string>>;

// What one container holds of one resource.
struct DeviceAllocation {
  DevicesPerNuma devices;  // id lists sorted
  // The plugin's answer: a serialised v1beta1.ContainerAllocateResponse. Opaque to the core. Empty
  // until the plugin has answered.
  std::string response;

  std::set<std::string> Ids() const;

  friend bool operator==(const DeviceAllocation&, const DeviceAllocation&) = default;
};

// A value. What init containers leave to later containers of their pod is not stored: it follows
// from the allocations (ReusableIds).
struct DeviceState {
  SharedMap<std::string, Resource> resources;  // by resource name
  // Container -> resource -> what it holds. Never an empty inner map.
  SharedMap<ContainerKey, std::map<std::string, DeviceAllocation>> allocations;
  // What the container holds of that resource, or null.
  const DeviceAllocation* Find(const ContainerKey& key, const std::string& resource) const;
  // All device ids of the resource that some container holds.
  std::set<std::string> AllocatedIds(const std::string& resource) const;
  // Those that some container of the pod holds.
  std::set<std::string> PodIds(const std::string& pod_uid, const std::string& resource) const;

  friend bool operator==(const DeviceState&, const DeviceState&) = default;
};

}  // namespace alignd::devicemanager
