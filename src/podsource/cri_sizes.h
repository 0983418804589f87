// What CRI's messages say of pods and of the sizes of containers. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "alignd/pod/cri_sizes.h"
#include "alignd/pod/pod.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::podsource {

// The sizes in CRI.
CriSizes SizesIn(const runtime::v1::LinuxContainerResources& resources);

// By resource name. The kubelet lists all page sizes of the machine; those without a limit are
// omitted.
ResourceList Hugepages(const runtime::v1::LinuxContainerResources& cri);

// The page size of `hugepages-2Mi` as cgroup files spell it: `2MB`. Empty for another resource.
std::string PageSizeOf(std::string_view resource);

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
