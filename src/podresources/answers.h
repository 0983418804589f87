// The assignments of pods, in the messages of the kubelet's pod resources service. Pure functions.
#pragma once

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "podresources/v1/podresources.pb.h"
#include "reconcile/container_registry.h"

namespace alignd::podresources {

// The pod's containers with their assignments: exclusive CPUs only; memory as booked; devices with
// their real ids, one entry per device and NUMA node.
// Source: kubelet pkg/kubelet/apis/podresources/server_v1.go; cm/container_manager_linux.go.
// Differs: the kubelet lists every container of the pod's spec except init containers. This lists
// the containers that have not ended as of the last listing of the runtime, init containers
// included. Ids, nodes and CPUs are sorted.
::v1::PodResources Describe(const admission::NodeState& state,
                            const reconcile::ContainerRegistry::Pod& pod);

// Everything that can be allocated, allocated or not: healthy devices; with cpuManagerPolicy
// static, all CPUs except the reserved ones; with memoryManagerPolicy Static, all memory except the
// reserved memory.
::v1::AllocatableResourcesResponse Allocatable(const admission::Node& node,
                                               const admission::NodeState& state);

}  // namespace alignd::podresources
