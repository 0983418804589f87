// The phase of packing that uses few uncore caches.
#pragma once

#include "core/cpumanager/cpu_accumulator.h"

namespace alignd::cpumanager {

// Takes whole uncore caches, then the remainder from a single cache if it fits there exactly. Takes
// fewer CPUs than needed if neither is possible.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeUncoreCache.
void TakeUncoreCaches(CpuAccumulator& packing);

}  // namespace alignd::cpumanager
