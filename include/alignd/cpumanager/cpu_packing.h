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
//
// Differs: no CPU is taken that is not free. In the kubelet a core or socket counts as free if it
// has as many free CPUs as the average one has CPUs, and all its CPUs are taken, reserved and
// assigned ones too; here all of them must be free as well. (That a core or socket of another size
// than the average is never taken whole is kept.) Nor is a unit that lies in two others taken
// twice.
//
// Differs: distribute-cpus-across-numa uses the NUMA nodes that it chose; the kubelet's choice is
// overwritten in memory by later candidates. It passes over nodes that have enough single CPUs for
// a remainder but not enough whole groups; there the kubelet's search never ends.
Result<CpuSet> TakeCpus(const Machine& machine, const PolicyOptions& options, const CpuSet& free,
                        int count);

}  // namespace alignd::cpumanager
