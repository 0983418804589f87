// The kubelet's system partition (KEP-5894): the pods of some namespaces are in a cgroup of their
// own, which may have CPUs of its own.
#pragma once

#include <optional>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"

namespace alignd::cgroup {

// `path`: a cgroup, as in cgroup_path.h. The cgroup of the partition above it:
// /kubepods/system, or /kubepods.slice/kubepods-system.slice.
std::optional<std::string> SystemPartitionOf(const std::string& path);

// The CPUs that the partition above this cgroup may use, if the kubelet has set them
// (systemPartition.cpuset). nullopt: none are set, or there is no partition; the kubelet makes one
// in version 2 only. May block. Errors: kIo, kCorrupt as ReadCpuset.
Result<std::optional<CpuSet>> ReadPartitionCpus(const CgroupTree& cgroups, const std::string& path);

}  // namespace alignd::cgroup
