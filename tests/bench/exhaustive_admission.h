// The kubelet's way to an affinity: every set of NUMA nodes for every resource, then every
// combination of one set per resource.
#pragma once

#include <cstdint>

#include "alignd/topologymanager/hint.h"
#include "bench/workload.h"

namespace alignd::bench {

// How many combinations there are, as a floating point number because it may be any.
double Combinations(int nodes, int resources);

// The affinity that Admit decides on, for the pod of a workload on which nothing runs.
topologymanager::TopologyHint AffinityByTryingAll(const Workload& workload);

}  // namespace alignd::bench
