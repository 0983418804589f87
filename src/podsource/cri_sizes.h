// What the kubelet makes of Kubernetes' amounts in CRI, and back. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// Thousandths of a CPU. The kubelet rounds down when it makes shares, so rounding up gives the
// request back; the least number of shares stands for no request.
int64_t MillisFromShares(int64_t shares);
int64_t SharesFromMillis(int64_t millis);

// Thousandths of a CPU; 0 for no limit.
int64_t MillisFromQuota(const runtime::v1::LinuxContainerResources& resources);
// The quota that the kubelet makes of a limit; 0 for none.
int64_t QuotaFromMillis(int64_t millis, int64_t period);

// By resource name; sizes without a limit are left out, as the kubelet lists all of the machine's.
ResourceList Hugepages(const runtime::v1::LinuxContainerResources& cri);

// The page size as cgroup files spell it, `2MB`, of `hugepages-2Mi`; empty for another resource.
std::string PageSizeOf(std::string_view resource);

// The amount in the list, in whole units or thousandths; 0 if it is not there.
int64_t Amount(const ResourceList& list, std::string_view resource);
int64_t MilliAmount(const ResourceList& list, std::string_view resource);

// The sum of two amounts that are not negative, INT64_MAX at most.
int64_t SaturatingSum(int64_t a, int64_t b);

// The QoS class that a cgroup parent made by the kubelet says, in the cgroupfs form
// (/kubepods/burstable/pod<uid>) or systemd's (kubepods-burstable-pod<uid>.slice); nullopt for any
// other parent. Source: kubelet pkg/kubelet/cm/qos_container_manager_linux.go.
std::optional<QosClass> QosOfCgroupParent(std::string_view cgroup_parent);

// Its identity and its QoS class, as far as its cgroup parent tells it.
Pod PodWithoutContainers(const runtime::v1::PodSandboxConfig& sandbox);

}  // namespace alignd::podsource
