// What is asked: a pod with its containers and their resources, its QoS class, and how many
// exclusive CPUs a container is entitled to.
#pragma once

#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/base/quantity.h"

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
  kInit,     // runs to its end before the next container starts
  kSidecar,  // an init container with restartPolicy Always: keeps running
  kApp,
};

struct Container {
  std::string name;
  ContainerKind kind = ContainerKind::kApp;
  Resources resources;

  friend bool operator==(const Container&, const Container&) = default;
};

// Names a container for as long as its pod lives, restarts included.
struct ContainerKey {
  std::string pod_uid;
  std::string container;

  friend bool operator==(const ContainerKey&, const ContainerKey&) = default;
  friend auto operator<=>(const ContainerKey&, const ContainerKey&) = default;
};

struct Pod {
  std::string uid;
  std::string name;
  std::string name_space;
  // In the kubelet's order: init containers as listed (sidecars among them), then the others.
  std::vector<Container> containers;
  // spec.resources. With requests or limits for cpu, memory or huge pages in it, the CPU and the
  // memory manager leave the pod alone (1.36 default feature gates).
  std::optional<Resources> pod_level;
  // status.qosClass, or what a cgroup parent told; believed where it is set.
  std::optional<QosClass> stated_qos;

  friend bool operator==(const Pod&, const Pod&) = default;
};

std::string_view ToString(QosClass qos);

// Source: kubernetes pkg/apis/core/v1/helper/qos/qos.go, GetPodQOS.
QosClass QosOf(const Pod& pod);

// Whether spec.resources asks for cpu, memory or huge pages.
// Source: k8s.io/component-helpers/resource, IsPodLevelResourcesSet.
bool HasPodLevelResources(const Pod& pod);

// Number of exclusive CPUs the container is entitled to: its cpu request, if the pod is Guaranteed,
// has no pod-level resources, and the request is a whole number. 0: it runs in the shared pool.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs.
int ExclusiveCpus(const Pod& pod, const Container& container);

// The amount under that name, or null.
const Quantity* Find(const ResourceList& list, std::string_view resource);

}  // namespace alignd
