#include "allocation/counted_devices.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"

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

const std::set<std::string>& IdsOf(const KubeletAllocatedIds& counted,
                                   const std::string& resource) {
  static const std::set<std::string> kNone;
  const auto found = counted.find(resource);
  return found == counted.end() ? kNone : found->second;
}

bool Shares(const Binding& binding, const std::set<std::string>& ids) {
  return std::ranges::any_of(binding, [&](const auto& pair) { return ids.contains(pair.first); });
}

// Whether the kubelet counts an id of that holder for another container of the pod, too.
bool IsReused(const std::map<std::string, Binding>& held, const KubeletAllocatedPod& counted) {
  return std::ranges::any_of(counted, [&](const auto& container) {
    return std::ranges::any_of(held, [&](const auto& entry) {
      return Shares(entry.second, IdsOf(container.second, entry.first));
    });
  });
}

// The pod, and in front of it those of its containers that it does not name and that must have
// ended.
Pod WithEnded(const Pod& pod, const KubeletAllocatedPod& counted, const Bindings& bindings,
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

// Whether another container of the pod wants the resource, too, has nothing of it yet and is not
// counted.
bool IsWantedUncounted(const NodeState& state, const Pod& pod, const KubeletAllocatedPod& counted,
                       const std::string& resource) {
  return std::ranges::any_of(pod.containers, [&](const Container& other) {
    const Quantity* limit = Find(other.resources.limits, resource);
    if (limit == nullptr || limit->IsZero()) return false;
    const auto known = counted.find(other.name);
    return (known == counted.end() || IdsOf(known->second, resource).empty()) &&
           state.devices.Find({pod.uid, other.name}, resource) == nullptr;
  });
}

// By resource: the devices that are to stand behind ids of containers that have none yet. Of an id
// that an ended container of the pod had, the device that it had; else the one of that id.
using Wanted = std::map<std::string, std::set<std::string>>;

// False: one of them cannot be had.
bool AreFree(const std::set<std::string>& wanted, const Binding& bound, const std::string& resource,
             const DeviceState& devices) {
  const auto inventory = devices.resources.find(resource);
  if (inventory == devices.resources.end()) return false;
  const std::set<std::string> allocated = devices.AllocatedIds(resource);
  std::set<std::string> left;
  for (const auto& [id, device] : bound) left.insert(device);
  return std::ranges::all_of(wanted, [&](const std::string& id) {
    if (left.contains(id)) return true;
    const auto device = inventory->second.devices.find(id);
    return device != inventory->second.devices.end() && device->second.healthy &&
           !allocated.contains(id);
  });
}

Wanted WantedIn(const NodeState& state, const Pod& pod, const KubeletAllocatedPod& counted,
                const Bindings& bindings) {
  Wanted wanted;
  for (const auto& [container, resources] : counted) {
    for (const auto& [resource, ids] : resources) {
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      const Binding bound = BoundInPod(bindings, pod.uid, resource);
      for (const std::string& id : ids) {
        const auto left = bound.find(id);
        wanted[resource].insert(left == bound.end() ? id : left->second);
      }
    }
  }
  return wanted;
}

// Leaves of the resource only these devices.
void LeaveOnly(const std::set<std::string>& wanted, const std::string& resource,
               DeviceState& devices) {
  if (!devices.resources.contains(resource)) return;
  for (auto& [id, device] : devices.resources[resource].devices) {
    if (!wanted.contains(id)) device.healthy = false;
  }
}

// Where several containers share what was left for them, each takes its own: they are decided
// about together, so that no one's place depends on which it has.
void TakeOwn(const Pod& pod, const KubeletAllocatedPod& counted, const Bindings& bindings,
             const NodeState& before, const Wanted& wanted, DeviceState& devices) {
  for (const auto& [resource, together] : wanted) {
    std::map<std::string, std::set<int64_t>> numa;  // by device
    std::set<std::string> given;
    for (const auto& [container, resources] : counted) {
      const auto* held = devices.Find({pod.uid, container}, resource);
      if (held == nullptr || before.devices.Find({pod.uid, container}, resource)) continue;
      for (const auto& [node, ids] : held->devices) {
        for (const std::string& id : ids) numa[id].insert(node);
      }
      given.merge(held->Ids());
    }
    if (given != together) continue;
    const Binding bound = BoundInPod(bindings, pod.uid, resource);
    for (const auto& [container, resources] : counted) {
      const ContainerKey key{pod.uid, container};
      const std::set<std::string>& ids = IdsOf(resources, resource);
      if (ids.empty() || before.devices.Find(key, resource) != nullptr) continue;
      devicemanager::DevicesPerNuma own;
      for (const std::string& id : ids) {
        const auto left = bound.find(id);
        const std::string& device = left == bound.end() ? id : left->second;
        for (const int64_t node : numa[device]) own[node].push_back(device);
      }
      for (auto& [node, list] : own) std::ranges::sort(list);
      devices.allocations[key].at(resource).devices = std::move(own);
    }
  }
}

// How many containers got something that the policy would rather not give.
int64_t Misaligned(const Admission& admission) {
  return std::ranges::count_if(admission.decisions, [](const admission::ContainerDecision& d) {
    return d.affinity && !d.affinity->preferred;
  });
}

}  // namespace

bool IsBound(const Bindings& bindings, const ContainerKey& key,
             const KubeletAllocatedIds& counted) {
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

bool AreBound(const Bindings& bindings, const std::string& pod_uid,
              const KubeletAllocatedPod& counted) {
  return std::ranges::all_of(counted, [&](const auto& entry) {
    return IsBound(bindings, {pod_uid, entry.first}, entry.second);
  });
}

bool HasKubeletAllocated(const NodeState& state, const std::string& pod_uid,
                         const KubeletAllocatedPod& counted) {
  return std::ranges::all_of(counted, [&](const auto& container) {
    return std::ranges::all_of(container.second, [&](const auto& entry) {
      return state.devices.Find({pod_uid, container.first}, entry.first) != nullptr;
    });
  });
}

bool IsPartOf(const KubeletAllocatedPod& counted, const KubeletAllocatedPod& other) {
  return std::ranges::all_of(counted, [&](const auto& entry) {
    const auto known = other.find(entry.first);
    return known != other.end() && known->second == entry.second;
  });
}

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

Admission AdmitKubeletAllocated(const admission::Node& node, const NodeState& state, const Pod& pod,
                                const KubeletAllocatedPod& counted, const Bindings& bindings,
                                const BindingModes& modes,
                                const devicemanager::PreferredAllocationFn& preferred) {
  if (counted.empty()) return admission::Admit(node, state, pod, preferred);
  const Pod known = WithEnded(pod, counted, bindings, state.devices);
  const Wanted wanted = WantedIn(state, known, counted, bindings);
  NodeState base = state;  // with nothing to give that must not be given
  Wanted in_base;
  for (const auto& [resource, devices] : wanted) {
    if (modes.Of(resource) != BindingMode::kStrict) continue;
    LeaveOnly(devices, resource, base.devices);
    in_base[resource] = devices;
  }
  NodeState narrowed = base;  // and with nothing but what the kubelet was steered to
  Wanted in_narrowed = in_base;
  bool can_steer = false;
  for (const auto& [resource, devices] : wanted) {
    if (modes.Of(resource) != BindingMode::kPreferred) continue;
    can_steer =
        AreFree(devices, BoundInPod(bindings, pod.uid, resource), resource, state.devices) &&
        !IsWantedUncounted(state, known, counted, resource);
    if (!can_steer) break;
    LeaveOnly(devices, resource, narrowed.devices);
    in_narrowed[resource] = devices;
  }
  const auto admit = [&](const NodeState& from, const Wanted& left, const auto& prefer) {
    Admission admission = admission::Admit(node, from, known, prefer);
    admission.next.devices.resources = state.devices.resources;
    if (!admission.admitted()) return admission;
    TakeOwn(known, counted, bindings, state, left, admission.next.devices);
    for (auto& [container, grant] : admission.assignments) {
      grant = admission::AssignmentOf(node, admission.next, {pod.uid, container});
    }
    return admission;
  };
  if (!can_steer) return admit(base, in_base, preferred);
  Admission steered = admit(narrowed, in_narrowed, devicemanager::PreferredAllocationFn());
  if (steered.admitted() && Misaligned(steered) == 0) return steered;
  Admission free = admit(base, in_base, preferred);
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

Bindings Bind(const NodeState& state, const std::string& pod_uid,
              const KubeletAllocatedPod& counted) {
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
