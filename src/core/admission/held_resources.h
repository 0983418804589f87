// What running containers hold, as the request of a pod: to decide about them again.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// Containers of one pod.
struct HoldingUnit {
  std::string pod_uid;
  std::vector<std::string> containers;
};

// The containers that are assigned exclusive CPUs, memory or devices.
std::set<ContainerKey> HoldersIn(const NodeState& state);

// Whether two containers of the pod have a CPU together.
bool HasSharedCpus(const cpumanager::CpuState& state, const std::string& pod_uid);

// Whether both states assign the same CPUs, memory and devices to all containers.
bool HaveSameAssignments(const NodeState& a, const NodeState& b);

// A pod that requests what these containers are assigned. Devices without a plugin are claimed
// devices, on the NUMA nodes on which they were. With topology scope pod, so is the memory: the
// kubelet's hints for the memory of a running pod with several containers have no opinion.
Pod HoldingPod(const Node& node, const NodeState& state, const HoldingUnit& unit);

// "CPUs 3-6 on NUMA nodes 0,1, memory of NUMA node 0, nvidia.com/gpu of NUMA node 1".
std::string DescribePlace(const Machine& machine, const NodeState& state, const HoldingUnit& unit);

}  // namespace alignd::admission
