// Distribution: a request that needs several NUMA nodes takes the same number of CPUs from each.
#pragma once

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// Takes `count` logical CPUs out of `free`, evenly from as few NUMA nodes as possible, or with
// `on_most` from as many, in groups of `group` CPUs. Packs them if they cannot be distributed.
// Errors: kInvalidArgument if fewer than `count` CPUs are free.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeByTopologyNUMADistributed.
// Differs: see FindNumaSpread.
Result<CpuSet> TakeDistributed(const Machine& machine, int group, const CpuSet& free, int count,
                               bool on_most = false);

}  // namespace alignd::cpumanager
