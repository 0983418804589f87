// Which CPUs to take out of the free ones: packed or distributed; whole NUMA nodes, sockets, uncore
// caches and cores first.
#pragma once

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// Takes `count` logical CPUs out of `free`, in the way that the options ask for. Deterministic.
// Errors: kInvalidArgument with the kubelet's text if fewer than `count` CPUs are free.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeByTopologyNUMAPacked and
// takeByTopologyNUMADistributed; policy_static.go, takeByTopology.
// Differs: "free core" and "free socket" mean that all their CPUs are free. The kubelet compares
// with the machine's average, and where cores or sockets differ it gives away CPUs that are not
// free; so it does where a socket lies in two NUMA nodes, by taking it twice. Differs:
// distribute-cpus-across-numa uses the NUMA nodes that it chose (the kubelet's choice is
// overwritten in memory by later candidates), and passes over nodes on which the kubelet's search
// never ends: enough single CPUs for a remainder, but not enough whole groups.
Result<CpuSet> TakeCpus(const Machine& machine, const PolicyOptions& options, const CpuSet& free,
                        int count);

}  // namespace alignd::cpumanager
