// All assignments of the node: the states of the managers and the stored affinities as one
// comparable value. Copies share equal parts, so a copy for each decision is cheap.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/base/shared_map.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::admission {

struct NodeState {
  cpumanager::CpuState cpu;
  memorymanager::MemoryState memory;
  devicemanager::DeviceState devices;
  // The merged hint of each container; not saved.
  SharedMap<ContainerKey, topologymanager::TopologyHint> affinities;
  // What pods have chosen (admission/own_policy.h), by UID: never the default. Not saved: after a
  // restart, the sandboxes of the pods have it.
  SharedMap<std::string, PodPolicies> chosen_policies;

  // A node without containers and without registered plugins.
  static NodeState Initial(const Node& node);

  // Broken invariants, one sentence each; empty if the state is valid.
  std::vector<std::string> BrokenInvariants(const Node& node) const;

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

// The UIDs of all pods that are assigned a resource, or have a stored affinity or policy.
std::set<std::string> PodsIn(const NodeState& state);

// Releases all resources of the pod. An unknown pod is ignored.
void ReleasePod(const std::string& pod_uid, NodeState& state);

// Releases CPUs and memory of one container; its devices stay with the pod.
void ReleaseContainer(const ContainerKey& key, NodeState& state);

}  // namespace alignd::admission
