// The number of exclusive CPUs of a container, without an upper limit. Private to the core.
#pragma once

#include <cstdint>

#include "alignd/pod/pod.h"

namespace alignd {

// As ExclusiveCpus, but up to 2^63 - 1: a request that no machine can satisfy is compared and
// printed as it is. A larger request counts as 2^63 - 1.
// Differs: the kubelet computes with 64 bits that wrap around. Whether a request of 2^63 / 1000
// CPUs or more is a whole number then depends on its spelling; from 2^63 on, a pod is admitted
// without CPUs. Here such a request is exclusive, and too large.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, guaranteedCPUs, isIntegralCPUAmount.
int64_t ExclusiveCpuCount(const Pod& pod, const Container& container);

}  // namespace alignd
