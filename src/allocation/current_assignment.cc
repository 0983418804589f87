#include "allocation/current_assignment.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/cpumanager/node_shares.h"

namespace alignd::allocation {
namespace {

// Whether `after` has every entry of `before`. An absent map has no entry.
template <typename ByPod>
bool HasEntries(const ByPod& before, const ByPod& after, const std::string& pod_uid) {
  const auto old = before.find(pod_uid);
  if (old == before.end()) return true;
  const auto now = after.find(pod_uid);
  return now != after.end() && std::ranges::all_of(old->second, [&](const auto& entry) {
           const auto same = now->second.find(entry.first);
           return same != now->second.end() && same->second == entry.second;
         });
}

template <typename ByPod>
bool HasSameWhole(const ByPod& before, const ByPod& after, const std::string& pod_uid) {
  const auto old = before.find(pod_uid);
  const auto now = after.find(pod_uid);
  return old == before.end() || (now != after.end() && now->second == old->second);
}

bool LacksMemory(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                 const Container& container) {
  return admission::RequestsMemory(node, pod, container) &&
         state.memory.Find({pod.uid, container.name}) == nullptr;
}

bool HasWhole(const admission::NodeState& state, const std::string& pod_uid) {
  return state.cpu.pods.contains(pod_uid) || state.memory.pods.contains(pod_uid);
}

}  // namespace

Pod AsDecided(const admission::Node& node, const admission::NodeState& state, Pod pod) {
  pod = admission::OnThisNode(node, admission::KeepingItsCpus(node, state, std::move(pod)));
  const bool from_pod = pod.pod_level_managers == PodLevelManagers::kPod;
  const bool has_whole = HasWhole(state, pod.uid);
  const bool has_others = !has_whole && (state.cpu.assignments.contains(pod.uid) ||
                                         state.memory.assignments.contains(pod.uid));
  if (from_pod ? !has_others : !has_whole) return pod;
  pod.is_complete = false;
  if (!HasPodLevelResources(pod)) {  // CRI does not show them
    pod.pod_level.emplace().limits["cpu"] = Quantity(1);
  }
  return admission::OnThisNode(node, std::move(pod));
}

void KeepLargeShares(const admission::NodeState& state, Pod& pod) {
  constexpr int64_t kMaxInCri = 256'000;  // thousandths of a CPU
  for (Container& container : pod.containers) {
    const auto share = state.cpu.shares.find({pod.uid, container.name});
    if (share == state.cpu.shares.end() || share->second.millis <= kMaxInCri) continue;
    if (admission::ShareOf(container).millis != kMaxInCri) continue;
    container.resources.requests["cpu"] =
        *Quantity::Parse(std::to_string(share->second.millis) + "m");
  }
}

bool KeepsItsParts(const admission::NodeState& before, const admission::NodeState& after,
                   const std::string& pod_uid) {
  return !HasWhole(before, pod_uid) ||
         (HasSameWhole(before.cpu.pods, after.cpu.pods, pod_uid) &&
          HasSameWhole(before.memory.pods, after.memory.pods, pod_uid) &&
          HasEntries(before.cpu.assignments, after.cpu.assignments, pod_uid) &&
          HasEntries(before.memory.assignments, after.memory.assignments, pod_uid));
}

Allocated AssignmentsOf(const admission::Node& node, const admission::NodeState& state,
                        const Pod& pod) {
  Allocated allocated;
  for (const Container& c : pod.containers) {
    allocated.assignments[c.name] = admission::AssignmentOf(node, state, {pod.uid, c.name});
  }
  return allocated;
}

bool HasAllItRequests(const admission::Node& node, const admission::NodeState& state,
                      const Pod& pod, const Container& container) {
  if (admission::LacksExclusiveCpus(node, state, pod, container)) return false;
  if (!admission::RequestsAssignment(node, state, pod, container)) return true;
  const ContainerKey key{pod.uid, container.name};
  if (LacksItsCpus(node, state, pod, container)) return false;
  if (LacksMemory(node, state, pod, container)) return false;
  for (const auto& [resource, amount] : container.resources.limits) {
    if (amount.IsZero() || !state.devices.resources.contains(resource)) continue;
    const devicemanager::DeviceAllocation* assigned = state.devices.Find(key, resource);
    if (assigned == nullptr || assigned->response.empty()) return false;
  }
  return true;
}

bool IsDecided(const admission::Node& node, const admission::NodeState& state,
               const AdmissionRequest& request, const std::set<ContainerKey>& admitted,
               bool pending) {
  const Pod& pod = request.pod;
  const bool one =
      std::ranges::find(pod.containers, request.wanted, &Container::name) != pod.containers.end();
  return std::ranges::all_of(pod.containers, [&](const Container& container) {
    if (one && container.name != request.wanted) return true;
    // A container of the shared pool may come again and ask for exclusive CPUs. Others may have
    // been admitted before the kubelet, or a plugin, knew their devices. Of a container that was
    // taken for one that has ended, others can have taken the memory.
    const bool has_memory = container.kind == ContainerKind::kInit || HasWhole(state, pod.uid) ||
                            !LacksMemory(node, state, pod, container);
    const bool was_admitted = admitted.contains({pod.uid, container.name});
    if (was_admitted && has_memory && !LacksItsCpus(node, state, pod, container) &&
        !LacksDevices(state, pod, container)) {
      return true;
    }
    return !pending && HasAllItRequests(node, state, pod, container);
  });
}

bool LacksDevices(const admission::NodeState& state, const Pod& pod, const Container& container) {
  return std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
    return !limit.second.IsZero() && state.devices.resources.contains(limit.first) &&
           state.devices.Find({pod.uid, container.name}, limit.first) == nullptr;
  });
}

bool HasDevicesOf(const admission::NodeState& state, const std::string& pod_uid,
                  const KubeletAllocatedPod& allocated) {
  return std::ranges::all_of(allocated, [&](const auto& container) {
    return std::ranges::all_of(container.second, [&](const auto& entry) {
      return state.devices.Find({pod_uid, container.first}, entry.first) != nullptr;
    });
  });
}

bool LacksItsCpus(const admission::Node& node, const admission::NodeState& state, const Pod& pod,
                  const Container& container) {
  const ContainerKey key{pod.uid, container.name};
  // Without a CPU manager, no container has such a share: the decision refuses the pod.
  if (admission::AsksForOneNode(node, pod, container)) return !state.cpu.shares.contains(key);
  if (!admission::RequestsCpus(node, pod, container)) return false;
  if (state.cpu.Find(key) == nullptr) return true;
  return pod.pod_level_managers == PodLevelManagers::kPod && ExclusiveCpus(pod, container) > 0 &&
         !state.cpu.HasOwnCpus(key);
}

}  // namespace alignd::allocation
