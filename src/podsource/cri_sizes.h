// Conversions between Kubernetes' amounts and the sizes that the kubelet writes into CRI. Pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// Thousandths of a CPU. The kubelet rounds shares down, so rounding up restores the request. The
// minimum number of shares means no request.
int64_t MillisFromShares(int64_t shares);
int64_t SharesFromMillis(int64_t millis);

// Thousandths of a CPU; 0 for no limit.
int64_t MillisFromQuota(const runtime::v1::LinuxContainerResources& resources);
// The quota that the kubelet sets for a limit; 0 for no limit.
int64_t QuotaFromMillis(int64_t millis, int64_t period);

// By resource name. The kubelet lists all page sizes of the machine; those without a limit are
// omitted.
ResourceList Hugepages(const runtime::v1::LinuxContainerResources& cri);

// The page size of `hugepages-2Mi` as cgroup files spell it: `2MB`. Empty for another resource.
std::string PageSizeOf(std::string_view resource);

// The amount in the list, in whole units or thousandths; 0 if the list does not have it.
int64_t Amount(const ResourceList& list, std::string_view resource);
int64_t MilliAmount(const ResourceList& list, std::string_view resource);

// The sum of two amounts that are not negative, INT64_MAX at most.
int64_t SaturatingSum(int64_t a, int64_t b);

// The QoS class in the name of a cgroup parent that the kubelet made, in the cgroupfs form
// (/kubepods/burstable/pod<uid>) or systemd's (kubepods-burstable-pod<uid>.slice); nullopt for any
// other parent. Pods of the kubelet's system partition are one level deeper:
// /kubepods/system/burstable/pod<uid>, kubepods-system-burstable-pod<uid>.slice.
// Source: kubelet pkg/kubelet/cm/qos_container_manager_linux.go; KEP-5894 (system partition).
std::optional<QosClass> QosOfCgroupParent(std::string_view cgroup_parent);

// The pod's identity, its QoS class if its cgroup parent shows it, and the policies that its
// annotations ask for.
Pod PodWithoutContainers(const runtime::v1::PodSandboxConfig& sandbox);

}  // namespace alignd::podsource
