// Packing: as few units as possible, those with fewer free CPUs first.
#pragma once

#include <cstdint>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// Options that change the order of packing.
struct PackingRules {
  bool align_to_uncore_caches = false;  // prefer-align-cpus-by-uncorecache
  bool spread_over_cores = false;       // distribute-cpus-across-cores
};

// "not enough cpus available to satisfy request: ...", the kubelet's text.
Error NotEnoughCpus(int64_t requested, int available);

// Takes `count` logical CPUs out of `free`: whole NUMA nodes and sockets, whole cores, single CPUs.
// Errors: kInvalidArgument if fewer than `count` CPUs are free.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeByTopologyNUMAPacked.
Result<CpuSet> TakePacked(const Machine& machine, const PackingRules& rules, const CpuSet& free,
                          int count);

}  // namespace alignd::cpumanager
