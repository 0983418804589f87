// Nodes and pods to measure with.
#pragma once

#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::bench {

// What is asked for, in this order: the first `n` of them, cpu always.
enum class Asked { kCpu = 1, kMemory, kGpu, kNic, kHugePages };

struct WorkloadSpec {
  std::string machine;       // for MakeMachine
  int resources = 3;         // so many of `Asked`
  int nodes_needed = 1;      // of each resource as much as so many NUMA nodes have
  int devices_per_node = 2;  // of each kind, on every NUMA node that has CPUs
  bool huge_pages = false;   // asked for as well, where `resources` does not reach so far
  // NUMA nodes from this position on have no memory; -1: all have some.
  int memoryless_from = -1;
  TopologyManagerPolicy policy = TopologyManagerPolicy::kBestEffort;
};

// A node on which nothing runs, and a pod with one container that fits on it.
struct Workload {
  admission::Node node;
  admission::NodeState state;
  Pod pod;
};

Workload MakeWorkload(const WorkloadSpec& spec);

// Admits so many pods with a CPU or two, memory, and every other one with a GPU.
void PlacePods(Workload& workload, int pods);

// What Admit decides about the pod. Ends the program if it is refused: it is not what was meant to
// be measured.
topologymanager::TopologyHint AdmitOrDie(const Workload& workload);

}  // namespace alignd::bench
