// The CFS quota of a pod's own cgroup, which the kubelet sets to the sum of the pod's limits.
// Functions without a state; they read and write files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"

namespace alignd::cgroup {

// The path of the pod's own cgroup. `parent`: the cgroup parent of its sandbox, or a path. nullopt:
// that is another cgroup.
std::optional<std::string> PathOfPod(const std::string& parent, const std::string& pod_uid);

// Removes the quota of the pod's own cgroup. Returns the quota from before, in microseconds of CPU
// time per period; nullopt: there was none. Does nothing if `parent`, the sandbox's cgroup parent
// or a path, is another cgroup or does not exist. A unit of systemd loses its quota too.
// Errors: kIo, kCorrupt: the quota stays.
// Source: kubelet pkg/kubelet/cm/pod_container_manager_linux.go, EnsureExists
// (DisableCPUQuotaWithExclusiveCPUs): a pod with a container that has exclusive CPUs has no quota.
Result<std::optional<int64_t>> LiftPodQuota(const CgroupTree& cgroups, const std::string& parent,
                                            const std::string& pod_uid);

// Gives the pod's own cgroup, at `path`, a quota that was lifted. A unit of systemd gets it too.
// Returns whether it is set: not if the cgroup has another one, or does not exist. Errors: kIo,
// kCorrupt: there is none.
Result<bool> RestorePodQuota(const CgroupTree& cgroups, const std::string& path, int64_t quota);

// The line of the log after LiftPodQuota. `pod`: "pod NAME". `quota`: the one from before.
std::string LiftedText(const std::string& pod, int64_t quota);

}  // namespace alignd::cgroup
