// The sizes that the kubelet writes into CRI for a pod and its containers, and the amounts of
// Kubernetes that they show. Pure functions.
#pragma once

#include <cstdint>
#include <string_view>

#include "alignd/pod/pod.h"

namespace alignd {

// The fields of CRI's LinuxContainerResources of the same names. 0: not set.
struct CriSizes {
  int64_t cpu_shares = 0;
  int64_t cpu_period = 0;  // in microseconds
  int64_t cpu_quota = 0;   // in microseconds; less than 0: lifted
  int64_t memory_limit = 0;
  ResourceList hugepages = {};  // by resource name; those without a limit are omitted
};

// Thousandths of a CPU. The kubelet rounds shares down, so rounding up restores the request. The
// minimum number of shares means no request.
int64_t MillisFromShares(int64_t shares);
int64_t SharesFromMillis(int64_t millis);

// Thousandths of a CPU; 0 for no limit.
int64_t MillisFromQuota(int64_t quota, int64_t period);
// The quota that the kubelet sets for a limit; 0 for no limit.
int64_t QuotaFromMillis(int64_t millis, int64_t period);

// The amount in the list, in whole units or thousandths; 0 if the list does not have it.
int64_t Amount(const ResourceList& list, std::string_view resource);
int64_t MilliAmount(const ResourceList& list, std::string_view resource);

// From quota, period, shares and limits. `claims_add_sizes`: the kubelet's feature gate
// DRANodeAllocatableResources is on. Then a quota of a Guaranteed pod's container that is larger
// than its shares contains CPUs of ResourceClaims, and the shares say what it requests. Its memory
// and huge pages may contain those of claims, too, which CRI does not show.
Resources EstimateResources(const CriSizes& sizes, QosClass qos, bool claims_add_sizes);

// Whether the container's limit is not its request. In a Guaranteed pod, each container's
// limits are its requests, unless the pod has resources of its own. Then a container without limits
// is shown with those of the pod, and another may request less than its limit. A pod without such a
// container cannot be distinguished.
// Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, getCPULimit.
bool LimitDiffersFromRequest(const CriSizes& sizes);

// Whether the quota may be the request and CPUs of ResourceClaims: these are added to a limit, and
// each container of a Guaranteed pod without pod-level resources has a request.
bool ClaimsMayExplain(const CriSizes& sizes);

// The other direction: what the kubelet writes for a container of a pod without pod-level
// resources, with the default of cpuCFSQuotaPeriod.
// Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, calculateLinuxResources.
CriSizes CriSizesOf(const Resources& resources);

}  // namespace alignd
