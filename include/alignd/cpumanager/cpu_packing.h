// The choice of CPUs among the free ones: packed or distributed; whole NUMA nodes, sockets, uncore
// caches and cores first.
#pragma once

#include <cstdint>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// Takes `count` logical CPUs out of `free`, as the options say. Deterministic.
// Errors: kInvalidArgument with the kubelet's text if fewer than `count` CPUs are free.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeByTopologyNUMAPacked and
// takeByTopologyNUMADistributed; policy_static.go, takeByTopology.
//
// Differs: only free CPUs are taken. To the kubelet, a core or socket is free if it has as many
// free CPUs as the average one has CPUs. It then takes all its CPUs, reserved and assigned ones
// too. Here all of them must be free as well. (As in the kubelet, a core or socket of another size
// than the average is never taken as a whole.) A unit that lies in two others is not taken twice.
//
// Differs: distribute-cpus-across-numa uses the chosen NUMA nodes; in the kubelet, later candidates
// overwrite the choice in memory. Nodes that have enough single CPUs for a remainder but not enough
// whole groups are skipped; there the kubelet's search never ends.
Result<CpuSet> TakeCpus(const Machine& machine, const PolicyOptions& options, const CpuSet& free,
                        int64_t count);

}  // namespace alignd::cpumanager
