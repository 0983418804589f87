// The sizes that an UpdateContainerResources asks for, as far as the managers look at them.
#pragma once

#include <cstdint>
#include <optional>

#include "reconcile/verbose_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

inline constexpr int64_t kMillisPerWholeCpu = 1000;

// The number of thousandths of a CPU that this update gives a container of a Guaranteed pod;
// nullopt if the update does not say. The limit of such a container is its request. A kubelet sends
// all sizes each time, also when only one of them changes. If quota and shares differ, the shares
// are the request: a ResourceClaim with CPUs adds to the quota alone (KEP-5517). Where the kubelet
// sets no quota (cpuCFSQuota: false, or exclusive CPUs of its own), the shares say it. Other
// callers send shares alone, which gives no container more CPUs. Source: kubelet
// pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, calculateLinuxResources.
std::optional<int64_t> RequestedMillis(runtime::v1::LinuxContainerResources resources);

// The same of what the runtime has for a container; nullopt: it does not say.
std::optional<int64_t> RequestedMillisOf(const reconcile::ContainerSpec& spec);

// Whether the container has a request or a limit, as far as the runtime says. An ephemeral
// container has none.
bool HasLimits(const reconcile::ContainerSpec& spec);

// Whether a container with `count` exclusive CPUs keeps them. Shares have a maximum, above which
// they say nothing.
bool KeepsCount(const runtime::v1::LinuxContainerResources& resources, int count);

// Whether the update says by shares alone that the container has as many CPUs as shares can say, or
// more.
bool SaysOnlyAtLeast(const runtime::v1::LinuxContainerResources& resources);

// Whether the update gives all sizes, as a kubelet's does. Of others, a number of CPUs that is not
// whole, or that would be exclusive, is no resize.
bool SaysAllSizes(const runtime::v1::LinuxContainerResources& resources);

// The memory limit in bytes, negative for no limit; nullopt if the update does not set it.
std::optional<int64_t> RequestedMemory(const runtime::v1::LinuxContainerResources& resources);

}  // namespace alignd::cri
