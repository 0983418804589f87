// The assignments of pods, in the messages of the kubelet's pod resources service. Pure functions.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "dra/container_claims.h"
#include "podresources/v1/podresources.pb.h"
#include "podresources/v1alpha1/podresources.pb.h"
#include "reconcile/container_registry.h"

namespace alignd::podresources {

// The pods that have a running sandbox or an assignment, each with the containers that have not
// ended as of the last listing of the runtime, and with those that are assigned something: a
// container that waits for its next start is still listed with what it is assigned, and so is an
// app container before its first start. Init containers are not listed: other containers of the pod
// have their CPUs and devices. `init_containers`: the names of those of a pod (not sidecars), as
// far as they are known. One that is not known as such is listed while it runs, and until others of
// its pod have what it is assigned. Source: kubelet pkg/kubelet/apis/podresources/server_v1.go.
// Differs: the kubelet lists every container of the pod's spec except init containers, also one
// without any assignment that does not run.
std::vector<reconcile::ContainerRegistry::Pod> WithHolders(
    const admission::NodeState& state, const reconcile::ContainerRegistry& registry,
    const std::function<std::set<std::string>(const std::string& pod_uid)>& init_containers);

// The pod's containers with their assignments: exclusive CPUs only; memory as booked; devices with
// their real ids. If the pod has CPUs or memory as a whole: these, and of its containers only those
// with CPUs of their own with CPUs and memory. Devices come as one entry per device and NUMA node.
// Ids, nodes and CPUs are sorted. Claims are listed whole with each container that has a device of
// them. Source: kubelet pkg/kubelet/apis/podresources/server_v1.go; cm/container_manager_linux.go.
// Differs: a device of a claim has its own CDI names; the kubelet's also has those of the devices
// before it. A claim without any CDI name is not listed.
::v1::PodResources Describe(const admission::NodeState& state,
                            const reconcile::ContainerRegistry::Pod& pod,
                            const dra::ContainerClaims& claims);

// The same in the first version of the service: devices without NUMA nodes, and nothing else.
// Source: kubelet pkg/kubelet/apis/podresources/server_v1alpha1.go, v1DevicesToAlphaV1.
::v1alpha1::PodResources DescribeDevices(const admission::NodeState& state,
                                         const reconcile::ContainerRegistry::Pod& pod);

// Everything that can be allocated, allocated or not: healthy devices; with cpuManagerPolicy
// static, all CPUs except the reserved ones; with memoryManagerPolicy Static, all memory except the
// reserved memory.
::v1::AllocatableResourcesResponse Allocatable(const admission::Node& node,
                                               const admission::NodeState& state);

}  // namespace alignd::podresources
