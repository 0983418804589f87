// The resources that one container is assigned.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/base/cpu_set.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

struct Assignment {
  // Exclusive CPUs that are online; empty for a container of the shared pool of the node, or of its
  // pod.
  CpuSet exclusive;
  // Its other CPUs, exclusive ones or those of its pod: they are offline. If it has no CPU that is
  // online, it is a container of the shared pool of the node until it has one.
  CpuSet offline = {};
  // Whether it shares `cpuset`, CPUs of its pod as a whole, with containers of its pod only.
  bool shares_pod_cpus = false;
  // The value for cpuset.cpus: the exclusive CPUs, those of its pod, or the default set; of a
  // container that stays on one NUMA node, the part of the default set there. Empty with
  // cpuManagerPolicy none, and if its CPUs are withheld: leave cpuset.cpus as it is.
  CpuSet cpuset;
  // Of a container of the shared pool that stays on one NUMA node.
  std::optional<cpumanager::NodeShare> share = {};
  // NUMA node ids for cpuset.mems, ascending; empty: leave it as it is.
  std::vector<int> memory_nodes;
  std::map<std::string, devicemanager::DeviceAllocation> devices;  // by resource name

  // The CPUs that no container of another pod has: empty in the shared pool of the node.
  CpuSet KeptFromOthers() const { return shares_pod_cpus ? cpuset : exclusive; }

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

// The assignment of a container in this state.
Assignment AssignmentOf(const Node& node, const NodeState& state, const ContainerKey& key);

// What the container is entitled to on this node. `pod` is as the node manages it (OnThisNode).
// Exclusive CPUs, or CPUs of its pod as a whole.
bool RequestsCpus(const Node& node, const Pod& pod, const Container& container);
// Memory of NUMA nodes.
bool RequestsMemory(const Node& node, const Pod& pod, const Container& container);
// Whether its pod asks, where pods can (PodPolicy::kSharedNumaNode), that its containers of the
// shared pool stay on one NUMA node, and it is one of these. Also if the annotation is malformed:
// then its pod is refused.
bool AsksForOneNode(const Node& node, const Pod& pod, const Container& container);

// Whether the node assigns CPUs and pods of any namespace can ask for that.
bool MayShareNodes(const Node& node);

// Whether the node assigns memory to the containers of the pod that request some: the pod is
// pinned, or has containers that stay on one NUMA node.
bool AssignsMemory(const Node& node, const Pod& pod);
// What it requests there: CpuState::shares without the NUMA node.
cpumanager::NodeShare ShareOf(const Container& container);
// Whether it is entitled to CPUs or memory, asks to stay on one NUMA node, or requests devices of a
// resource that the node has. About all other containers, nothing is decided: the daemon answers
// for them at once.
bool RequestsAssignment(const Node& node, const NodeState& state, const Pod& pod,
                        const Container& container);

}  // namespace alignd::admission
