#include "core/devicemanager/inventory.h"

#include <algorithm>
#include <iterator>
#include <string_view>
#include <vector>

namespace alignd::devicemanager {
namespace {

bool IsDeviceResource(const DeviceState& state, const std::string& resource) {
  if (state.resources.contains(resource)) return true;
  // Plugins have resource names with a domain; so cpu and memory need no search in all allocations.
  return resource.find('/') != std::string::npos &&
         std::ranges::any_of(state.allocations,
                             [&](const auto& entry) { return entry.second.contains(resource); });
}

void AddTo(DeviceRequest& sum, const DeviceRequest& request) {
  for (const auto& [resource, count] : request) {
    int64_t& so_far = sum[resource];
    if (__builtin_add_overflow(so_far, count, &so_far)) so_far = INT64_MAX;
  }
}

void RaiseTo(DeviceRequest& largest, const DeviceRequest& request) {
  for (const auto& [resource, count] : request) {
    int64_t& so_far = largest[resource];
    so_far = std::max(so_far, count);
  }
}

bool IsInit(const Pod& pod, const std::string& container) {
  return std::ranges::any_of(pod.containers, [&](const Container& c) {
    return c.name == container && c.kind == ContainerKind::kInit;
  });
}

// The allocated and the withheld ids of the resource, sorted; a device on two nodes may be there
// twice. Points into the state: with some hundred pods, copies would cost too much.
std::vector<std::string_view> TakenIds(const DeviceState& state, const std::string& resource) {
  std::vector<std::string_view> ids;
  for (const auto& [key, by_resource] : state.allocations) {
    const auto allocation = by_resource.find(resource);
    if (allocation == by_resource.end()) continue;
    for (const auto& [node, on_node] : allocation->second.devices) {
      ids.insert(ids.end(), on_node.begin(), on_node.end());
    }
  }
  for (const auto& [key, by_resource] : state.withheld) {
    const auto claimed = by_resource.find(resource);
    if (claimed == by_resource.end()) continue;
    ids.insert(ids.end(), claimed->second.begin(), claimed->second.end());
  }
  std::ranges::sort(ids);
  return ids;
}

}  // namespace

DeviceRequest RequestOf(const DeviceState& state, const Container& container) {
  DeviceRequest request;
  for (const auto& [resource, limit] : container.resources.limits) {
    if (IsDeviceResource(state, resource)) request[resource] = limit.Value();
  }
  return request;
}

DeviceRequest RequestOf(const DeviceState& state, const Pod& pod) {
  DeviceRequest lasting;   // sidecars so far, in the end with all apps
  DeviceRequest starting;  // the largest need of an init container with the sidecars before it
  for (const Container& container : pod.containers) {
    const DeviceRequest request = RequestOf(state, container);
    if (container.kind == ContainerKind::kInit) {
      DeviceRequest together = lasting;
      AddTo(together, request);
      RaiseTo(starting, together);
    } else {
      AddTo(lasting, request);
    }
  }
  RaiseTo(lasting, starting);
  return lasting;
}

const Resource& InventoryOf(const DeviceState& state, const std::string& resource) {
  static const Resource kUnknown;
  const auto found = state.resources.find(resource);
  return found == state.resources.end() ? kUnknown : found->second;
}

DeviceIds HealthyIds(const Resource& resource) {
  DeviceIds ids;
  if (!resource.registered) return ids;
  for (const auto& [id, device] : resource.devices) {
    if (device.healthy) ids.insert(ids.end(), id);
  }
  return ids;
}

DeviceIds FreeIds(const DeviceState& state, const std::string& resource) {
  DeviceIds free;
  const Resource& inventory = InventoryOf(state, resource);
  if (!inventory.registered) return free;
  const std::vector<std::string_view> taken = TakenIds(state, resource);
  auto next = taken.begin();  // not less than the current device: both are sorted
  for (const auto& [id, device] : inventory.devices) {
    while (next != taken.end() && *next < id) ++next;
    const bool is_taken = next != taken.end() && *next == id;
    if (device.healthy && !is_taken) free.insert(free.end(), id);
  }
  return free;
}

const Device& DeviceOf(const Resource& resource, const std::string& id) {
  static const Device kUnlisted{.healthy = false, .numa = {}};
  const auto found = resource.devices.find(id);
  return found == resource.devices.end() ? kUnlisted : found->second;
}

DeviceIds ReusableIds(const DeviceState& state, const Pod& pod, const std::string& resource) {
  DeviceIds of_init;
  DeviceIds kept;
  for (auto entry = state.allocations.lower_bound({pod.uid, ""});
       entry != state.allocations.end() && entry->first.pod_uid == pod.uid; ++entry) {
    const auto allocation = entry->second.find(resource);
    if (allocation == entry->second.end()) continue;
    (IsInit(pod, entry->first.container) ? of_init : kept).merge(allocation->second.Ids());
  }
  const Resource& inventory = InventoryOf(state, resource);
  DeviceIds reusable = Difference(of_init, kept);
  std::erase_if(reusable, [&](const std::string& id) {
    return !inventory.registered || !DeviceOf(inventory, id).healthy;
  });
  return reusable;
}

bool HasTopology(const Resource& resource) {
  return std::ranges::any_of(resource.devices,
                             [](const auto& entry) { return !entry.second.numa.empty(); });
}

DeviceIds Difference(const DeviceIds& a, const DeviceIds& b) {
  DeviceIds difference;
  std::ranges::set_difference(a, b, std::inserter(difference, difference.end()));
  return difference;
}

}  // namespace alignd::devicemanager
