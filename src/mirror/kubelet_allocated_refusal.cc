#include "mirror/kubelet_allocated_refusal.h"

#include <algorithm>
#include <set>

namespace alignd::mirror {
namespace {

using admission::NodeState;
using checkpoint::Binding;
using checkpoint::Bindings;
using devicemanager::DeviceState;

constexpr char kRemedy[] =
    "delete the pod, so that the kubelet allocates other devices to the next one";

std::string OnlyAsAllocated(const std::string& resource) {
  return "in mode strict " + resource + " is only assigned as the kubelet allocated it";
}

// "container app of pod 1234".
std::string ContainerWith(const DeviceState& devices, const std::string& resource,
                          const std::string& id) {
  for (const auto& [key, resources] : devices.allocations) {
    const auto allocation = resources.find(resource);
    if (allocation == resources.end() || !allocation->second.Ids().contains(id)) continue;
    return "container " + key.container + " of pod " + key.pod_uid;
  }
  return "no container";
}

// "NUMA node 0 and 1", or empty without topology.
std::string PlaceOf(const devicemanager::Device& device) {
  std::string place;
  for (const int64_t node : std::set<int64_t>(device.numa.begin(), device.numa.end())) {
    if (node == -1) continue;  // the plugin's way to say that it knows none
    place += (place.empty() ? "NUMA node " : " and ") + std::to_string(node);
  }
  return place;
}

std::optional<Refusal> RefuseUnlisted(const NodeState& state, const std::string& resource,
                                      const std::set<std::string>& ids) {
  const auto inventory = state.devices.resources.find(resource);
  if (inventory == state.devices.resources.end() || !inventory->second.registered) {
    return UnexpectedAdmissionError("cannot allocate unregistered device " + resource);
  }
  for (const std::string& id : ids) {
    if (inventory->second.devices.contains(id)) continue;
    return UnexpectedAdmissionError("the kubelet allocated device " + id + " of " + resource +
                                    ", which its device plugin does not list: wait until it lists "
                                    "the device again, or " +
                                    kRemedy);
  }
  return std::nullopt;
}

// `bound`: the devices of ended containers of the pod.
std::optional<Refusal> RefuseTaken(const DeviceState& devices, const std::string& resource,
                                   const std::set<std::string>& ids, const Binding& bound) {
  const auto& inventory = devices.resources.find(resource)->second.devices;
  const std::set<std::string> allocated = devices.AllocatedIds(resource);
  for (const std::string& id : ids) {
    if (bound.contains(id)) continue;
    const std::string what =
        "the kubelet allocated device " + id + " of " + resource + ", which is ";
    if (allocated.contains(id)) {
      return UnexpectedAdmissionError(what + "assigned to " + ContainerWith(devices, resource, id) +
                                      "; " + OnlyAsAllocated(resource) +
                                      ": wait until that pod ends, or " + kRemedy);
    }
    if (!inventory.find(id)->second.healthy) {
      return UnexpectedAdmissionError(what + "unhealthy; " + OnlyAsAllocated(resource) +
                                      ": wait until it is healthy again, or " + kRemedy);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Error> WhyUnallocated(const NodeState& state,
                                    const allocation::AdmissionRequest& request) {
  const auto wanted = std::ranges::find(request.pod.containers, request.wanted, &Container::name);
  if (wanted == request.pod.containers.end()) return std::nullopt;
  const auto ids = request.kubelet_allocated.find(wanted->name);
  for (const auto& [resource, limit] : wanted->resources.limits) {
    const auto offered = state.devices.resources.find(resource);
    // A resource whose plugin has not registered with alignd may be the kubelet's own.
    if (offered == state.devices.resources.end() || !offered->second.registered) continue;
    if (limit.IsZero()) continue;
    if (ids != request.kubelet_allocated.end() && ids->second.contains(resource)) continue;
    if (state.devices.Find({request.pod.uid, wanted->name}, resource) != nullptr) continue;
    return Error{ErrorCode::kUnavailable,
                 wanted->name + ": limits." + resource + " is " + std::to_string(limit.Value()) +
                     ", but the kubelet allocated none for it",
                 "wait: the kubelet allocates devices when it tries again to create the container. "
                 "If this lasts, request devices in the pod's own resources, not only by "
                 "annotation, and let the plugin register with alignd only"};
  }
  return std::nullopt;
}

std::optional<Refusal> RefuseKubeletAllocated(const NodeState& state, const Pod& pod,
                                              const KubeletAllocatedPod& allocated,
                                              const Bindings& bindings, const BindingModes& modes) {
  for (const auto& [container, resources] : allocated) {
    for (const auto& [resource, ids] : resources) {
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      if (auto refusal = RefuseUnlisted(state, resource, ids)) return refusal;
      if (modes.Of(resource) != BindingMode::kStrict) continue;
      const Binding bound = BoundInPod(bindings, pod.uid, resource);
      if (auto refusal = RefuseTaken(state.devices, resource, ids, bound)) return refusal;
    }
  }
  return std::nullopt;
}

std::string ExplainKubeletAllocated(const admission::Node& node, const NodeState& state,
                                    const Pod& pod, const KubeletAllocatedPod& allocated,
                                    const Bindings& bindings, const BindingModes& modes) {
  std::string text;
  for (const auto& [container, resources] : allocated) {
    for (const auto& [resource, ids] : resources) {
      if (modes.Of(resource) != BindingMode::kStrict) continue;
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      const auto inventory = state.devices.resources.find(resource);
      if (inventory == state.devices.resources.end()) continue;
      const Binding bound = BoundInPod(bindings, pod.uid, resource);
      std::string devices;
      for (const std::string& id : ids) {
        const auto of_ended = bound.find(id);
        const auto device =
            inventory->second.devices.find(of_ended == bound.end() ? id : of_ended->second);
        if (device == inventory->second.devices.end()) continue;
        devices += (devices.empty() ? "" : ", ") + device->first;
        const std::string place = PlaceOf(device->second);
        if (!place.empty()) devices += " on " + place;
      }
      text += "; " + OnlyAsAllocated(resource) + ": container " + container + " has " + devices;
    }
  }
  if (text.empty()) return text;
  const bool fits_otherwise =
      AdmitKubeletAllocated(node, state, pod, allocated, bindings, BindingMode::kDeferred, {})
          .admitted();
  if (fits_otherwise) text += ". With other devices the pod would fit: " + std::string(kRemedy);
  return text;
}

}  // namespace alignd::mirror
