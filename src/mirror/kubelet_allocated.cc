#include "mirror/kubelet_allocated.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::mirror {
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

const std::set<std::string>& IdsOf(const KubeletAllocatedIds& allocated,
                                   const std::string& resource) {
  static const std::set<std::string> kNone;
  const auto found = allocated.find(resource);
  return found == allocated.end() ? kNone : found->second;
}

bool Shares(const Binding& binding, const std::set<std::string>& ids) {
  return std::ranges::any_of(binding, [&](const auto& pair) { return ids.contains(pair.first); });
}

// Whether the kubelet allocated one of these bound ids to another container of the pod, too.
bool IsReused(const std::map<std::string, Binding>& bound, const KubeletAllocatedPod& allocated) {
  return std::ranges::any_of(allocated, [&](const auto& container) {
    return std::ranges::any_of(bound, [&](const auto& entry) {
      return Shares(entry.second, IdsOf(container.second, entry.first));
    });
  });
}

// The pod with its ended containers in front, which the request does not name.
Pod WithEnded(const Pod& pod, const KubeletAllocatedPod& allocated, const Bindings& bindings,
              const DeviceState& devices) {
  Pod known = pod;
  known.stated_qos = QosOf(pod);  // the ended containers' CPUs and memory are not known
  std::vector<Container> ended;
  for (const auto& [key, bound] : bindings) {
    if (key.pod_uid != pod.uid || IsNamed(pod, key.container)) continue;
    if (!IsReused(bound, allocated)) continue;
    Container container{key.container, ContainerKind::kInit, {}};
    for (const auto& [resource, binding] : bound) {
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

// An ended container, whose memory is not known, seems to request none. It must not keep an entry
// that says so: it may run again.
void DropEmptyEntries(const Pod& pod, const Pod& with_ended, memorymanager::MemoryState& memory) {
  for (const Container& container : with_ended.containers) {
    const ContainerKey key{pod.uid, container.name};
    const std::vector<memorymanager::Block>* const blocks = memory.Find(key);
    if (blocks == nullptr || !blocks->empty() || IsNamed(pod, container.name)) continue;
    memorymanager::ReleaseContainer(key, memory);
  }
}

// Whether another container of the pod asks for the resource, too, is not assigned any device of
// it, and has no allocated ids.
bool IsWantedElsewhere(const NodeState& state, const Pod& pod, const KubeletAllocatedPod& allocated,
                       const std::string& resource) {
  return std::ranges::any_of(pod.containers, [&](const Container& other) {
    const Quantity* limit = Find(other.resources.limits, resource);
    if (limit == nullptr || limit->IsZero()) return false;
    const auto known = allocated.find(other.name);
    return (known == allocated.end() || IdsOf(known->second, resource).empty()) &&
           state.devices.Find({pod.uid, other.name}, resource) == nullptr;
  });
}

// By resource: the devices to bind to the ids of containers without an assignment. For an id of an
// ended container of the pod that is its device; otherwise the device with that id.
using Wanted = std::map<std::string, std::set<std::string>>;

bool AreFree(const std::set<std::string>& wanted, const Binding& bound, const std::string& resource,
             const DeviceState& devices) {
  const auto inventory = devices.resources.find(resource);
  if (inventory == devices.resources.end()) return false;
  const std::set<std::string> allocated = devices.AllocatedIds(resource);
  std::set<std::string> of_ended;
  for (const auto& [id, device] : bound) of_ended.insert(device);
  return std::ranges::all_of(wanted, [&](const std::string& id) {
    if (of_ended.contains(id)) return true;
    const auto device = inventory->second.devices.find(id);
    return device != inventory->second.devices.end() && device->second.healthy &&
           !allocated.contains(id);
  });
}

Wanted WantedIn(const NodeState& state, const Pod& pod, const KubeletAllocatedPod& allocated,
                const Bindings& bindings) {
  Wanted wanted;
  for (const auto& [container, resources] : allocated) {
    for (const auto& [resource, ids] : resources) {
      if (state.devices.Find({pod.uid, container}, resource) != nullptr) continue;
      const Binding bound = BoundInPod(bindings, pod.uid, resource);
      for (const std::string& id : ids) {
        const auto of_ended = bound.find(id);
        wanted[resource].insert(of_ended == bound.end() ? id : of_ended->second);
      }
    }
  }
  return wanted;
}

// Makes all other devices of the resource unavailable.
void RestrictTo(const std::set<std::string>& wanted, const std::string& resource,
                DeviceState& devices) {
  if (!devices.resources.contains(resource)) return;
  for (auto& [id, device] : devices.resources[resource].devices) {
    if (!wanted.contains(id)) device.healthy = false;
  }
}

// If several containers share the devices that the resource was restricted to, each is assigned the
// devices of its own ids. They are decided together, so that the alignment stays the same.
void AssignOwn(const Pod& pod, const KubeletAllocatedPod& allocated, const Bindings& bindings,
               const NodeState& before, const Wanted& wanted, DeviceState& devices) {
  for (const auto& [resource, together] : wanted) {
    std::map<std::string, std::set<int64_t>> numa;  // by device
    std::set<std::string> assigned;
    for (const auto& [container, resources] : allocated) {
      const auto* allocation = devices.Find({pod.uid, container}, resource);
      if (allocation == nullptr || before.devices.Find({pod.uid, container}, resource)) continue;
      for (const auto& [node, ids] : allocation->devices) {
        for (const std::string& id : ids) numa[id].insert(node);
      }
      assigned.merge(allocation->Ids());
    }
    if (assigned != together) continue;
    const Binding bound = BoundInPod(bindings, pod.uid, resource);
    for (const auto& [container, resources] : allocated) {
      const ContainerKey key{pod.uid, container};
      const std::set<std::string>& ids = IdsOf(resources, resource);
      if (ids.empty() || before.devices.Find(key, resource) != nullptr) continue;
      devicemanager::DevicesPerNuma own;
      for (const std::string& id : ids) {
        const auto of_ended = bound.find(id);
        const std::string& device = of_ended == bound.end() ? id : of_ended->second;
        for (const int64_t node : numa[device]) own[node].push_back(device);
      }
      for (auto& [node, list] : own) std::ranges::sort(list);
      devices.allocations[key].at(resource).devices = std::move(own);
    }
  }
}

// The number of containers with a hint that is not preferred.
int64_t Misaligned(const Admission& admission) {
  return std::ranges::count_if(admission.decisions, [](const admission::ContainerDecision& d) {
    return d.affinity && !d.affinity->preferred;
  });
}

}  // namespace

bool IsBound(const Bindings& bindings, const ContainerKey& key,
             const KubeletAllocatedIds& allocated) {
  const auto bound = bindings.find(key);
  return std::ranges::all_of(allocated, [&](const auto& entry) {
    if (bound == bindings.end()) return false;
    const auto binding = bound->second.find(entry.first);
    return binding != bound->second.end() &&
           std::ranges::equal(
               binding->second, entry.second, {},
               [](const auto& pair) -> const auto& { return pair.first; });
  });
}

bool AreBound(const Bindings& bindings, const std::string& pod_uid,
              const KubeletAllocatedPod& allocated) {
  return std::ranges::all_of(allocated, [&](const auto& entry) {
    return IsBound(bindings, {pod_uid, entry.first}, entry.second);
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
                                const KubeletAllocatedPod& allocated, const Bindings& bindings,
                                const BindingModes& modes,
                                const devicemanager::PreferredAllocationFn& preferred) {
  if (allocated.empty()) return admission::Admit(node, state, pod, preferred);
  const Pod known = WithEnded(pod, allocated, bindings, state.devices);
  const Wanted wanted = WantedIn(state, known, allocated, bindings);
  NodeState base = state;  // without the devices that kStrict excludes
  Wanted in_base;
  for (const auto& [resource, devices] : wanted) {
    if (modes.Of(resource) != BindingMode::kStrict) continue;
    RestrictTo(devices, resource, base.devices);
    in_base[resource] = devices;
  }
  NodeState narrowed = base;  // with the allocated devices only, for kPreferred, too
  Wanted in_narrowed = in_base;
  bool can_narrow = false;
  for (const auto& [resource, devices] : wanted) {
    if (modes.Of(resource) != BindingMode::kPreferred) continue;
    can_narrow =
        AreFree(devices, BoundInPod(bindings, pod.uid, resource), resource, state.devices) &&
        !IsWantedElsewhere(state, known, allocated, resource);
    if (!can_narrow) break;
    RestrictTo(devices, resource, narrowed.devices);
    in_narrowed[resource] = devices;
  }
  const auto admit = [&](const NodeState& from, const Wanted& own, const auto& prefer) {
    Admission admission = admission::Admit(node, from, known, prefer);
    admission.next.devices.resources = state.devices.resources;
    if (!admission.admitted()) return admission;
    AssignOwn(known, allocated, bindings, state, own, admission.next.devices);
    DropEmptyEntries(pod, known, admission.next.memory);
    for (auto& [container, assignment] : admission.assignments) {
      assignment = admission::AssignmentOf(node, admission.next, {pod.uid, container});
    }
    return admission;
  };
  if (!can_narrow) return admit(base, in_base, preferred);
  Admission preferred_ids = admit(narrowed, in_narrowed, devicemanager::PreferredAllocationFn());
  if (preferred_ids.admitted() && Misaligned(preferred_ids) == 0) return preferred_ids;
  Admission any_ids = admit(base, in_base, preferred);
  if (!preferred_ids.admitted()) return any_ids;
  // The empty node would align the pod better, with other devices.
  if (any_ids.refused_at && any_ids.refused_at->by == admission::RefusedBy::kTopology) {
    return any_ids;
  }
  const bool aligns_better = any_ids.admitted() && Misaligned(any_ids) < Misaligned(preferred_ids);
  return aligns_better ? any_ids : preferred_ids;
}

Binding Pair(const std::set<std::string>& ids, const std::set<std::string>& devices) {
  Binding binding;
  std::vector<std::string> others;
  for (const std::string& device : devices) {
    if (ids.contains(device)) {
      binding.emplace(device, device);
    } else {
      others.push_back(device);
    }
  }
  auto next = others.begin();
  for (const std::string& id : ids) {
    if (next == others.end()) break;
    if (binding.try_emplace(id, *next).second) ++next;
  }
  return binding;
}

Bindings Bind(const NodeState& state, const std::string& pod_uid,
              const KubeletAllocatedPod& allocated) {
  Bindings bindings;
  for (const auto& [container, resources] : allocated) {
    const ContainerKey key{pod_uid, container};
    for (const auto& [resource, ids] : resources) {
      const devicemanager::DeviceAllocation* assigned = state.devices.Find(key, resource);
      if (assigned == nullptr) continue;
      Binding binding = Pair(ids, assigned->Ids());
      if (!binding.empty()) bindings[key][resource] = std::move(binding);
    }
  }
  return bindings;
}

}  // namespace alignd::mirror
