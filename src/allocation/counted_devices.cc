#include "allocation/counted_devices.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

namespace alignd::allocation {
namespace {

using admission::Admission;
using admission::NodeState;
using checkpoint::Binding;
using checkpoint::Bindings;
using devicemanager::DeviceState;

bool IsNamed(const Pod& pod, const std::string& container) {
  return std::ranges::any_of(pod.containers,
                             [&](const Container& c) { return c.name == container; });
}

const std::set<std::string>& IdsOf(const CountedIds& counted, const std::string& resource) {
  static const std::set<std::string> kNone;
  const auto found = counted.find(resource);
  return found == counted.end() ? kNone : found->second;
}

bool Shares(const Binding& binding, const std::set<std::string>& ids) {
  return std::ranges::any_of(binding, [&](const auto& pair) { return ids.contains(pair.first); });
}

// Whether the kubelet counts an id of that holder for another container of the pod, too.
bool IsReused(const std::map<std::string, Binding>& held, const CountedPod& counted) {
  return std::ranges::any_of(counted, [&](const auto& container) {
    return std::ranges::any_of(held, [&](const auto& entry) {
      return Shares(entry.second, IdsOf(container.second, entry.first));
    });
  });
}

// The pod, and in front of it those of its containers that it does not name and that must have
// ended.
Pod WithEnded(const Pod& pod, const CountedPod& counted, const Bindings& bindings,
              const DeviceState& devices) {
  Pod known = pod;
  known.stated_qos = QosOf(pod);  // what is known of the others is not all that they ask for
  std::vector<Container> ended;
  for (const auto& [key, held] : bindings) {
    if (key.pod_uid != pod.uid || IsNamed(pod, key.container) || !IsReused(held, counted)) continue;
    Container container{key.container, ContainerKind::kInit, {}};
    for (const auto& [resource, binding] : held) {
      const devicemanager::DeviceAllocation* allocation = devices.Find(key, resource);
      if (allocation == nullptr) continue;
      const Quantity count(static_cast<int64_t>(allocation->Ids().size()));
      container.resources.limits[resource] = count;
      container.resources.requests[resource] = count;
    }
    ended.push_back(std::move(container));
  }
  known.containers.insert(known.containers.begin(), std::make_move_iterator(ended.begin()),
                          std::make_move_iterator(ended.end()));
  return known;
}

// Whether another container of the pod wants the resource, too, and has nothing of it yet.
bool IsWantedBeside(const NodeState& state, const Pod& pod, const std::string& container,
                    const std::string& resource) {
  return std::ranges::any_of(pod.containers, [&](const Container& other) {
    const Quantity* limit = Find(other.resources.limits, resource);
    return other.name != container && limit != nullptr && !limit->IsZero() &&
           state.devices.Find({pod.uid, other.name}, resource) == nullptr;
  });
}

// Which device stands behind each id that is bound in the pod.
Binding BoundInPod(const Bindings& bindings, const std::string& pod_uid,
                   const std::string& resource) {
  Binding bound;
  for (auto entry = bindings.lower_bound({pod_uid, ""});
       entry != bindings.end() && entry->first.pod_uid == pod_uid; ++entry) {
    const auto binding = entry->second.find(resource);
    if (binding != entry->second.end()) {
      bound.insert(binding->second.begin(), binding->second.end());
    }
  }
  return bound;
}

// Leaves of the resource only the devices that are to stand behind those ids: of an id that an
// ended container of the pod had, the device that it had; else the one of that id, if it is free.
// False: the ids cannot be taken as they are.
bool LeaveOnly(const std::set<std::string>& ids, const std::string& pod_uid,
               const std::string& resource, const Bindings& bindings, DeviceState& devices) {
  const auto inventory = devices.resources.find(resource);
  if (inventory == devices.resources.end()) return false;
  const std::set<std::string> allocated = devices.AllocatedIds(resource);
  const Binding bound = BoundInPod(bindings, pod_uid, resource);
  std::set<std::string> wanted;
  for (const std::string& id : ids) {
    if (const auto left = bound.find(id); left != bound.end()) {
      wanted.insert(left->second);
      continue;
    }
    const auto device = inventory->second.devices.find(id);
    if (device == inventory->second.devices.end()) return false;
    if (!device->second.healthy || allocated.contains(id)) return false;
    wanted.insert(id);
  }
  for (auto& [id, device] : devices.resources[resource].devices) {
    if (!wanted.contains(id)) device.healthy = false;
  }
  return true;
}

// The state with nothing but the counted devices to give; nullopt if they cannot be taken.
std::optional<NodeState> Narrowed(const NodeState& state, const Pod& pod, const CountedPod& counted,
                                  const Bindings& bindings) {
  NodeState narrowed = state;
  for (const auto& [container, resources] : counted) {
    for (const auto& [resource, ids] : resources) {
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      if (IsWantedBeside(state, pod, container, resource)) return std::nullopt;
      if (!LeaveOnly(ids, pod.uid, resource, bindings, narrowed.devices)) return std::nullopt;
    }
  }
  return narrowed;
}

// How many containers got something that the policy would rather not give.
int64_t Misaligned(const Admission& admission) {
  return std::ranges::count_if(admission.decisions, [](const admission::ContainerDecision& d) {
    return d.affinity && !d.affinity->preferred;
  });
}

}  // namespace

bool IsBound(const Bindings& bindings, const ContainerKey& key, const CountedIds& counted) {
  const auto held = bindings.find(key);
  return std::ranges::all_of(counted, [&](const auto& entry) {
    if (held == bindings.end()) return false;
    const auto binding = held->second.find(entry.first);
    return binding != held->second.end() &&
           std::ranges::equal(
               binding->second, entry.second, {},
               [](const auto& pair) -> const auto& { return pair.first; });
  });
}

bool AreBound(const Bindings& bindings, const std::string& pod_uid, const CountedPod& counted) {
  return std::ranges::all_of(counted, [&](const auto& entry) {
    return IsBound(bindings, {pod_uid, entry.first}, entry.second);
  });
}

bool HoldsCounted(const NodeState& state, const std::string& pod_uid, const CountedPod& counted) {
  return std::ranges::all_of(counted, [&](const auto& container) {
    return std::ranges::all_of(container.second, [&](const auto& entry) {
      return state.devices.Find({pod_uid, container.first}, entry.first) != nullptr;
    });
  });
}

bool IsPartOf(const CountedPod& counted, const CountedPod& other) {
  return std::ranges::all_of(counted, [&](const auto& entry) {
    const auto known = other.find(entry.first);
    return known != other.end() && known->second == entry.second;
  });
}

Pod WithoutUncounted(const NodeState& state, const Pod& pod, const std::string& wanted,
                     const CountedPod& counted) {
  if (wanted.empty()) return pod;
  const auto is_uncounted = [&](const Container& container) {
    if (container.name == wanted || counted.contains(container.name)) return false;
    return std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
      return !limit.second.IsZero() && state.devices.resources.contains(limit.first) &&
             state.devices.Find({pod.uid, container.name}, limit.first) == nullptr;
    });
  };
  Pod known = pod;
  known.stated_qos = QosOf(pod);
  std::erase_if(known.containers, is_uncounted);
  return known;
}

std::optional<Refusal> RefuseUnknown(const NodeState& state, const Pod& pod,
                                     const CountedPod& counted) {
  for (const auto& [container, resources] : counted) {
    for (const auto& [resource, ids] : resources) {
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      const auto inventory = state.devices.resources.find(resource);
      if (inventory == state.devices.resources.end() || !inventory->second.registered) {
        return UnexpectedAdmissionError("cannot allocate unregistered device " + resource);
      }
      for (const std::string& id : ids) {
        if (inventory->second.devices.contains(id)) continue;
        return UnexpectedAdmissionError("the kubelet counted device " + id + " of " + resource +
                                        ", which its device plugin does not list");
      }
    }
  }
  return std::nullopt;
}

Admission AdmitCounted(const admission::Node& node, const NodeState& state, const Pod& pod,
                       const CountedPod& counted, const Bindings& bindings, BindingMode mode,
                       const devicemanager::PreferredAllocationFn& preferred) {
  if (counted.empty()) return admission::Admit(node, state, pod, preferred);
  const Pod known = WithEnded(pod, counted, bindings, state.devices);
  const std::optional<NodeState> narrowed =
      mode == BindingMode::kSteered ? Narrowed(state, known, counted, bindings) : std::nullopt;
  if (!narrowed) return admission::Admit(node, state, known, preferred);
  Admission steered = admission::Admit(node, *narrowed, known, nullptr);
  steered.next.devices.resources = state.devices.resources;
  if (steered.admitted() && Misaligned(steered) == 0) return steered;
  Admission free = admission::Admit(node, state, known, preferred);
  if (!steered.admitted()) return free;
  return free.admitted() && Misaligned(free) < Misaligned(steered) ? free : steered;
}

Binding Pair(const std::set<std::string>& counted, const std::set<std::string>& devices) {
  Binding binding;
  std::vector<std::string> others;
  for (const std::string& device : devices) {
    if (counted.contains(device)) {
      binding.emplace(device, device);
    } else {
      others.push_back(device);
    }
  }
  auto next = others.begin();
  for (const std::string& id : counted) {
    if (next == others.end()) break;
    if (binding.try_emplace(id, *next).second) ++next;
  }
  return binding;
}

Bindings Bind(const NodeState& state, const std::string& pod_uid, const CountedPod& counted) {
  Bindings bindings;
  for (const auto& [container, resources] : counted) {
    const ContainerKey key{pod_uid, container};
    for (const auto& [resource, ids] : resources) {
      const devicemanager::DeviceAllocation* held = state.devices.Find(key, resource);
      if (held == nullptr) continue;
      Binding binding = Pair(ids, held->Ids());
      if (!binding.empty()) bindings[key][resource] = std::move(binding);
    }
  }
  return bindings;
}

}  // namespace alignd::allocation
