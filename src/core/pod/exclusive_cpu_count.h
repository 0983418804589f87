// The number of exclusive CPUs of a container, without an upper limit, and of a pod as a whole.
// Private to the core.
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

// The CPUs that the pod is assigned as a whole, for its containers to have parts of: its pod-level
// cpu request, if it is pinned and the request is a whole number. 0 for all other pods, and with
// other `pod_level_managers` than kPod.
// Source: policy_static.go, podGuaranteedCPUs.
int64_t PodCpuBudget(const Pod& pod);

// The largest number of exclusive CPUs that the containers need at one time: all app containers and
// sidecars, or an init container with the sidecars before it. A sum above 2^63 - 1 saturates: both
// are impossible. The kubelet's sum wraps around.
// Source: policy_static.go, podGuaranteedCPUs.
int64_t PodExclusiveCpus(const Pod& pod);

}  // namespace alignd
