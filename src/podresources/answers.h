// What pods hold, in the messages of the kubelet's pod resources service. Pure functions.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "podresources/v1/podresources.pb.h"

namespace alignd::podresources {

// A pod that the runtime has, and its containers that have not ended.
struct NamedPod {
  std::string uid;
  std::string name;
  std::string name_space;
  std::set<std::string> containers;
};

// The pod's containers, with what they hold: exclusive CPUs only; memory as it is booked; devices
// with the ids that they really have, one entry per device and NUMA node.
// Source: kubelet pkg/kubelet/apis/podresources/server_v1.go; cm/container_manager_linux.go.
// Differs: the kubelet lists every container of the pod's spec but init containers; we list those
// that run or are to run, ended ones not. Ids, nodes and CPUs are sorted.
::v1::PodResources Describe(const admission::NodeState& state, const NamedPod& pod);

// Everything that could be given to somebody, whether it is or not: healthy devices; CPUs but the
// reserved ones, with cpuManagerPolicy static only; memory but the reserved one, likewise.
::v1::AllocatableResourcesResponse Allocatable(const admission::Node& node,
                                               const admission::NodeState& state);

}  // namespace alignd::podresources
