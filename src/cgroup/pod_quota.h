// The CFS quota of a pod's own cgroup, which the kubelet sets to the sum of the pod's limits.
#pragma once

#include <string>

#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"

namespace alignd::cgroup {

// Removes the quota of the pod's own cgroup. Does nothing if `parent`, the sandbox's cgroup parent
// or a path, is another cgroup or does not exist. Errors: kIo, kCorrupt: the quota stays.
// Source: kubelet pkg/kubelet/cm/pod_container_manager_linux.go, EnsureExists
// (DisableCPUQuotaWithExclusiveCPUs): a pod with a container that has exclusive CPUs has no quota.
Result<Done> LiftPodQuota(const CgroupTree& cgroups, const std::string& parent,
                          const std::string& pod_uid);

}  // namespace alignd::cgroup
