// The kubelet's computation of an affinity: every set of NUMA nodes for every resource, then every
// combination of one set per resource.
#pragma once

#include <cstdint>

#include "alignd/topologymanager/hint.h"
#include "bench/workload.h"

namespace alignd::bench {

// The number of combinations; floating point because it can be very large.
double Combinations(int nodes, int resources);

// The affinity that Admit decides on, for the pod of a workload on an empty node.
topologymanager::TopologyHint AffinityByTryingAll(const Workload& workload);

}  // namespace alignd::bench
