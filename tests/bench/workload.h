// Nodes and pods for measurements.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::bench {

// The requested resources, in this order: the first `n` of them, cpu always.
enum class Asked { kCpu = 1, kMemory, kGpu, kNic, kHugePages };

struct WorkloadSpec {
  std::string machine;       // for MakeMachine
  int numa_nodes = 0;        // that the machine must have; 0: any number
  int resources = 3;         // the number of requested kinds
  int nodes_needed = 1;      // of each resource as much as this number of NUMA nodes has
  int devices_per_node = 2;  // of each kind, on every NUMA node that has CPUs
  bool huge_pages = false;   // requested as well, even if `resources` is smaller
  // NUMA nodes from this position on have no memory; -1: all have some.
  int memoryless_from = -1;
  TopologyManagerPolicy policy = TopologyManagerPolicy::kBestEffort;
};

// An empty node, and a pod with one container that fits on it.
struct Workload {
  admission::Node node;
  admission::NodeState state;
  Pod pod;
};

Workload MakeWorkload(const WorkloadSpec& spec);

// Admits this number of pods with one or two CPUs and memory; every second pod has a GPU.
void PlacePods(Workload& workload, int pods);

// What Admit decides about the pod. Ends the program if the pod is refused.
topologymanager::TopologyHint AdmitOrDie(const Workload& workload);

}  // namespace alignd::bench
