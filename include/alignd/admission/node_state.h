// What the node has given away: the managers' states and the stored affinities as one comparable
// value. Copies share what they have in common, so that one per decision costs little.
#pragma once

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
  // What the topology manager decided for each container; not saved.
  SharedMap<ContainerKey, topologymanager::TopologyHint> affinities;

  // A node on which nothing runs and no plugin has registered.
  static NodeState Initial(const Node& node);

  // Broken invariants, one sentence each; empty if the state is sound.
  std::vector<std::string> BrokenInvariants(const Node& node) const;

  friend bool operator==(const NodeState&, const NodeState&) = default;
};

// Gives back everything the pod holds. Nothing happens for an unknown pod.
void ReleasePod(const std::string& pod_uid, NodeState& state);

// Gives back CPUs and memory of one container; its devices stay with the pod.
void ReleaseContainer(const ContainerKey& key, NodeState& state);

}  // namespace alignd::admission
