// A pod: its containers and their resources, its QoS class, and the number of exclusive CPUs of a
// container.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/quantity.h"
#include "alignd/pod/pod_policies.h"

namespace alignd {

// Resource name (`cpu`, `memory`, `hugepages-2Mi`, `nvidia.com/gpu`) -> amount.
using ResourceList = std::map<std::string, Quantity, std::less<>>;

struct Resources {
  ResourceList requests;
  ResourceList limits;

  friend bool operator==(const Resources&, const Resources&) = default;
};

enum class QosClass { kGuaranteed, kBurstable, kBestEffort };

enum class ContainerKind {
  kInit,     // ends before the next container starts
  kSidecar,  // an init container with restartPolicy Always: keeps running
  kApp,
};

// A device that was allocated to a container before the pod's admission, by DRA.
struct ClaimedDevice {
  std::string name;                // driver and device: gpu.example.com/gpu-0
  std::vector<int64_t> numa = {};  // NUMA node ids; empty: unknown

  friend bool operator==(const ClaimedDevice&, const ClaimedDevice&) = default;
};

struct Container {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  Resources resources;
  std::vector<ClaimedDevice> claimed_devices = {};
  // Not part of the container: its pod asks for shared CPUs in place of exclusive ones, and the
  // node's configuration allows it (admission::OnThisNode).
  bool shares_cpus = false;

  friend bool operator==(const Container&, const Container&) = default;
};

// Identifies a container as long as its pod exists, across restarts.
struct ContainerKey {
  std::string pod_uid;
  std::string container;

  friend bool operator==(const ContainerKey&, const ContainerKey&) = default;
  friend auto operator<=>(const ContainerKey&, const ContainerKey&) = default;
};

// What the CPU manager and the memory manager do with a pod that has pod-level resources.
enum class PodLevelManagers {
  kOff,         // nothing: the feature gate PodLevelResourceManagers is off
  kContainers,  // each Guaranteed container is assigned resources of the node
  kPod,         // the pod is assigned what it requests as a whole, and its containers parts of that
};

struct Pod {
  std::string uid;
  std::string name;
  std::string name_space;
  // In the kubelet's order: init containers as listed (sidecars among them), then the others.
  std::vector<Container> containers;
  // Whether these are all containers that the pod is admitted with. Otherwise the pod is never
  // assigned CPUs and memory as a whole: what its other containers need is not known.
  bool is_complete = true;
  // With topology scope pod: those of all its containers, which have none of their own then.
  std::vector<ClaimedDevice> claimed_devices = {};
  // spec.resources. If it has requests or limits for cpu, memory or huge pages,
  // `pod_level_managers` says what the CPU manager and the memory manager do with the pod.
  std::optional<Resources> pod_level;
  // status.qosClass, or the class of the cgroup parent. Takes precedence over the computed class.
  std::optional<QosClass> stated_qos;
  // The runtime handler, if the containers of such pods do not run in cgroups of their own (gVisor,
  // Kata): the CPU manager and the memory manager ignore the pod. Empty for all other pods.
  std::string shared_pool_handler = {};
  // Not part of the pod: the node's configuration decides (admission::PodLevelManagersOf).
  PodLevelManagers pod_level_managers = PodLevelManagers::kOff;
  // Not part of the pod: its containers stay on one NUMA node, and the node assigns their memory
  // there, whatever the QoS class (admission::OnThisNode).
  bool stays_with_memory = false;
  // The pod is Burstable, and its source, CRI, does not show what its containers request of memory.
  bool lacks_memory_requests = false;
  // What its annotations ask for. A node follows them if its configuration allows that.
  PodPolicies policies = {};
  // What applies where its annotations say nothing. nullopt: the defaults of its namespace, which
  // the node's configuration has.
  std::optional<PlacementPolicies> defaults = {};
  // spec.priority, if the source knows it. Only for the order in which pods wait.
  int32_t priority = 0;

  friend bool operator==(const Pod&, const Pod&) = default;
};

std::string_view ToString(QosClass qos);

// Source: kubernetes pkg/apis/core/v1/helper/qos/qos.go, GetPodQOS.
QosClass QosOf(const Pod& pod);

// Whether spec.resources has cpu, memory or huge pages.
// Source: k8s.io/component-helpers/resource, IsPodLevelResourcesSet.
bool HasPodLevelResources(const Pod& pod);

// Whether the CPU manager and the memory manager assign anything to the pod's containers: the pod
// is Guaranteed, has no shared_pool_handler, and has no pod-level resources unless the managers
// support them.
bool IsPinned(const Pod& pod);

// Whether the memory manager assigns memory to the pod's containers: the pod is pinned, or its
// containers stay on one NUMA node. Differs: in the kubelet, only if it is pinned.
bool PinsMemory(const Pod& pod);

// Whether the container is entitled to resources of its own: any container of a pod without
// pod-level resources; of a pod with them, one whose cpu and memory requests are positive and equal
// to its limits.
// Source: kubelet pkg/kubelet/cm/qos, IsContainerEquivalentQOSGuaranteed.
bool IsEligible(const Pod& pod, const Container& container);

// Number of exclusive CPUs the container is entitled to: its cpu request, if the pod is pinned, the
// container is eligible and the request is a whole number. 0: the container runs in the shared pool
// of the node, or of its pod if that has CPUs as a whole (WholePodCpus).
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs.
// Differs: the kubelet does not look at the runtime handler.
int ExclusiveCpus(const Pod& pod, const Container& container);

// Number of CPUs that the pod is assigned as a whole, for its containers to have parts of: its
// pod-level cpu request, if it is pinned and the request is a whole number. 0 with other
// `pod_level_managers` than kPod.
int WholePodCpus(const Pod& pod);

// The amount under that name, or null.
const Quantity* Find(const ResourceList& list, std::string_view resource);

}  // namespace alignd
