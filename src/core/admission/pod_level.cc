#include "alignd/admission/pod_level.h"

#include <algorithm>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "alignd/cpumanager/pod_partition.h"
#include "alignd/devicemanager/device_policy.h"
#include "alignd/memorymanager/pod_memory.h"
#include "alignd/topologymanager/policy.h"
#include "core/admission/own_sharing.h"
#include "core/admission/shared_node.h"
#include "core/admission/whole_pod.h"

namespace alignd::admission {

using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

PodLevelManagers PodLevelManagersOf(const Node& node, const Pod& pod) {
  if (!HasPodLevelResources(pod) || !pod.is_complete || !PodLevelResourceManagersOn(node.config)) {
    return PodLevelManagers::kOff;
  }
  const topologymanager::Policy& topology = TopologyOf(node, pod);
  const bool by_container = topology.kind() == TopologyManagerPolicy::kNone ||
                            topology.scope() == TopologyManagerScope::kContainer;
  return by_container ? PodLevelManagers::kContainers : PodLevelManagers::kPod;
}

Pod OnThisNode(const Node& node, Pod pod) {
  pod.pod_level_managers = PodLevelManagersOf(node, pod);
  MarkSharing(node, pod);
  pod.stays_with_memory = StaysWithMemory(node, pod);
  return pod;
}

std::string_view ToString(Isolation isolation) {
  switch (isolation) {
    case Isolation::kContainer:
      return "container";
    case Isolation::kPod:
      return "pod";
    case Isolation::kHost:
      return "host";
  }
  return "";
}

Isolation IsolationOf(const NodeState& state, const Pod& pod, const Container& container) {
  if (state.cpu.Find({pod.uid, container.name}) == nullptr) return Isolation::kHost;
  if (pod.pod_level_managers == PodLevelManagers::kOff) return Isolation::kContainer;
  return ExclusiveCpus(pod, container) > 0 ? Isolation::kContainer : Isolation::kPod;
}

Isolation IsolationOf(const NodeState& state, const ContainerKey& key) {
  if (state.cpu.Find(key) == nullptr) return Isolation::kHost;
  if (!state.cpu.pods.contains(key.pod_uid)) return Isolation::kContainer;
  return state.cpu.HasOwnCpus(key) ? Isolation::kContainer : Isolation::kPod;
}

bool KeepsPodQuota(const Node& node, const Pod& pod) {
  if (!PodLevelResourceManagersOn(node.config)) return false;
  if (!pod.is_complete) return true;
  return HasPodLevelResources(pod) && std::ranges::any_of(pod.containers, [&](const Container& c) {
           return ExclusiveCpus(pod, c) == 0;
         });
}

std::vector<HintsByResource> WholePodAnswers(const Node& node, const cpumanager::StaticPolicy* cpu,
                                             const NodeState& state, const Pod& pod) {
  std::vector<HintsByResource> answers(3);
  answers[0] = devicemanager::PodHints(node.machine, state.devices, pod);
  if (cpu) answers[1] = cpumanager::WholePodHints(node.machine, *cpu, state.cpu, pod);
  if (node.memory) answers[2] = memorymanager::WholePodHints(node.machine, state.memory, pod);
  return answers;
}

WholePodPlacement AllocateWholePod(const Node& node, const cpumanager::StaticPolicy* cpu,
                                   const Pod& pod, const TopologyHint& affinity,
                                   const TopologyHint& memory_affinity,
                                   const devicemanager::PreferredAllocationFn& preferred,
                                   NodeState& state) {
  for (const Container& container : pod.containers) {
    if (!node.allocates_devices_with_pod) break;
    auto refusal =
        devicemanager::Allocate(node.machine, pod, container, affinity, preferred, state.devices);
    if (refusal) return {std::move(refusal), container.name, RefusedBy::kDevices, true};
  }
  const std::string& first = pod.containers.front().name;
  if (cpu) {
    auto refusal = cpumanager::AllocateWholePod(node.machine, *cpu, pod, affinity, state.cpu);
    if (refusal) return {std::move(refusal), first, RefusedBy::kCpus, true};
  }
  if (!node.memory) return {};
  memorymanager::Placement memory =
      memorymanager::AllocateWholePod(node.machine, pod, memory_affinity, state.memory);
  return {std::move(memory.refusal), first, RefusedBy::kMemory, memory.exact};
}

Refusal AffinityRefusal(const Pod& pod) {
  Refusal refusal = topologymanager::TopologyAffinityError();
  switch (pod.pod_level_managers) {
    case PodLevelManagers::kOff:
      break;
    case PodLevelManagers::kContainers:  // the kubelet says "Pod Scope" here too
      refusal.message =
          "Pod Scope pod with pod-level resources failed admission with a container-level topology "
          "manager";
      break;
    case PodLevelManagers::kPod:
      refusal.message =
          "Pod Scope pod with pod-level resources failed admission under pod-scope topology "
          "manager";
      break;
  }
  return refusal;
}

}  // namespace alignd::admission
