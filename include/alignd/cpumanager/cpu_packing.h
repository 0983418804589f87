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
Result<CpuSet> TakeCpus(const Machine& machine, const PolicyOptions& options, const CpuSet& free,
                        int count);

}  // namespace alignd::cpumanager
