// Pods with pod-level resources (feature gate PodLevelResourceManagers): the one place that decides
// how such a pod is treated.
#pragma once

#include <string_view>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// What this node's CPU manager and memory manager do with the pod. kOff for a pod without pod-level
// resources, and without the feature gate. kContainers with topology policy none or scope
// container. Otherwise kPod.
// A pod of which not all containers are known is treated as without the feature gate.
// Source: kubelet pkg/kubelet/cm/topologymanager/scope_pod.go, scope_container.go, scope_none.go.
PodLevelManagers PodLevelManagersOf(const Node& node, const Pod& pod);

// The pod with `pod_level_managers`, `stays_with_memory` and Container::shares_cpus as on this
// node. Functions that look at the rights of a container (ExclusiveCpus, IsPinned, PinsMemory) need
// it; Admit finds it itself.
Pod OnThisNode(const Node& node, Pod pod);

// The containers that a container shares its CPUs with.
enum class Isolation {
  kContainer,  // with no other container
  kPod,        // with the shared containers of its pod
  kHost,       // with all shared containers of the node
};

// "container", "pod", "host": the kubelet's isolation levels.
std::string_view ToString(Isolation isolation);

// `pod` as from OnThisNode.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_manager.go, GetResourceIsolationLevel.
Isolation IsolationOf(const NodeState& state, const Pod& pod, const Container& container);

// The same where the pod's spec is not known: by CpuState::originals. A container of a pod with
// CPUs as a whole that has no entry there counts as kPod.
Isolation IsolationOf(const NodeState& state, const ContainerKey& key);

// Whether the pod's own CFS quota stays although it has exclusive CPUs: with the feature gate, of a
// pod with pod-level resources, unless each of its containers has exclusive CPUs; and of a pod of
// which not all containers are known. `pod` as from OnThisNode.
// Source: kubelet pkg/kubelet/cm/container_manager_linux.go, PodHasExclusiveCPUs.
bool KeepsPodQuota(const Node& node, const Pod& pod);

}  // namespace alignd::admission
