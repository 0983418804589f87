#include "cgroup/pod_quota.h"

#include <spdlog/spdlog.h>

#include "cgroup/cgroup_path.h"

namespace alignd::cgroup {

void LiftPodQuota(const CgroupTree& cgroups, const std::string& parent,
                  const std::string& pod_uid) {
  const Result<std::string> path = PathOfParent(parent);
  if (!path.ok() || !IsOfPod(*path, pod_uid)) {
    spdlog::debug("pod {}: its cgroup parent \"{}\" is not its own", pod_uid, parent);
    return;
  }
  const Result<std::optional<int64_t>> lifted = cgroups.LiftCpuQuota(*path);
  if (lifted.ok() && *lifted) {
    spdlog::info("pod {} has exclusive CPUs: its CFS quota of {} us is lifted", pod_uid, **lifted);
  } else if (!lifted.ok() && lifted.error().code != ErrorCode::kNotFound) {
    spdlog::warn("pod {} has exclusive CPUs and may be throttled: {}", pod_uid,
                 lifted.error().Text());
  }
}

}  // namespace alignd::cgroup
