#include "allocation/counted_refusal.h"

#include <set>

namespace alignd::allocation {
namespace {

using admission::NodeState;
using checkpoint::Binding;
using checkpoint::Bindings;
using devicemanager::DeviceState;

constexpr char kRemedy[] = "delete the pod, so that the kubelet counts anew for the next one";

std::string CountedOnly(const std::string& resource) {
  return resource + " is given as the kubelet counted it only (binding mode counted)";
}

// "container app of pod 1234".
std::string HolderOf(const DeviceState& devices, const std::string& resource,
                     const std::string& id) {
  for (const auto& [key, held] : devices.allocations) {
    const auto allocation = held.find(resource);
    if (allocation == held.end() || !allocation->second.Ids().contains(id)) continue;
    return "container " + key.container + " of pod " + key.pod_uid;
  }
  return "nobody";
}

// "NUMA node 0 and 1", or empty without topology.
std::string PlaceOf(const devicemanager::Device& device) {
  std::string place;
  for (const int64_t node : std::set<int64_t>(device.numa.begin(), device.numa.end())) {
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
    return UnexpectedAdmissionError("the kubelet counted device " + id + " of " + resource +
                                    ", which its device plugin does not list (any more): "
                                    "delete the pod, so that the kubelet counts anew");
  }
  return std::nullopt;
}

// `bound`: what ended containers of the pod had.
std::optional<Refusal> RefuseTaken(const DeviceState& devices, const std::string& resource,
                                   const std::set<std::string>& ids, const Binding& bound) {
  const auto& inventory = devices.resources.find(resource)->second.devices;
  const std::set<std::string> allocated = devices.AllocatedIds(resource);
  for (const std::string& id : ids) {
    if (bound.contains(id)) continue;
    const std::string what = "the kubelet counted device " + id + " of " + resource + ", which ";
    if (allocated.contains(id)) {
      return UnexpectedAdmissionError(
          what + HolderOf(devices, resource, id) + " holds, and " + CountedOnly(resource) +
          "; it is tried again until that is given back, or " + kRemedy);
    }
    if (!inventory.find(id)->second.healthy) {
      return UnexpectedAdmissionError(what + "is unhealthy, and " + CountedOnly(resource) + "; " +
                                      kRemedy);
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<Refusal> RefuseKubeletAllocated(const NodeState& state, const Pod& pod,
                                              const KubeletAllocatedPod& counted,
                                              const Bindings& bindings, const BindingModes& modes) {
  for (const auto& [container, resources] : counted) {
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
                                    const Pod& pod, const KubeletAllocatedPod& counted,
                                    const Bindings& bindings, const BindingModes& modes) {
  std::string text;
  for (const auto& [container, resources] : counted) {
    for (const auto& [resource, ids] : resources) {
      if (modes.Of(resource) != BindingMode::kStrict) continue;
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      const auto inventory = state.devices.resources.find(resource);
      if (inventory == state.devices.resources.end()) continue;
      const Binding bound = BoundInPod(bindings, pod.uid, resource);
      std::string devices;
      for (const std::string& id : ids) {
        const auto left = bound.find(id);
        const auto device = inventory->second.devices.find(left == bound.end() ? id : left->second);
        if (device == inventory->second.devices.end()) continue;
        devices += (devices.empty() ? "" : ", ") + device->first;
        const std::string place = PlaceOf(device->second);
        if (!place.empty()) devices += " on " + place;
      }
      text += ". " + CountedOnly(resource) + ", which is here for " + container + ": " + devices;
    }
  }
  if (text.empty()) return text;
  const bool fits_otherwise =
      AdmitKubeletAllocated(node, state, pod, counted, bindings, BindingMode::kDeferred, {})
          .admitted();
  if (fits_otherwise) text += "; with others it would fit now: " + std::string(kRemedy);
  return text;
}

}  // namespace alignd::allocation
