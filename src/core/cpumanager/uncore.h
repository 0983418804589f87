// The phase of packing that keeps a container's CPUs on few uncore caches.
#pragma once

#include "core/cpumanager/cpu_accumulator.h"

namespace alignd::cpumanager {

// Takes whole uncore caches, then what is left from a single cache if it fits there exactly; takes
// less than is needed where neither is possible.
// Source: kubelet pkg/kubelet/cm/cpumanager/cpu_assignment.go, takeUncoreCache.
void TakeUncoreCaches(CpuAccumulator& packing);

}  // namespace alignd::cpumanager
