#include "cgroup/pod_quota.h"

#include <spdlog/spdlog.h>

#include "cgroup/cgroup_path.h"

namespace alignd::cgroup {

Result<Done> LiftPodQuota(const CgroupTree& cgroups, const std::string& parent,
                          const std::string& pod_uid) {
  const Result<std::string> path = PathOfParent(parent);
  if (!path.ok() || !IsOfPod(*path, pod_uid)) {
    spdlog::debug("pod {}: its cgroup parent \"{}\" is not its own", pod_uid, parent);
    return Done{};
  }
  const Result<std::optional<int64_t>> lifted = cgroups.LiftCpuQuota(*path);
  if (lifted.ok()) {
    if (*lifted) {
      spdlog::info("pod {} has exclusive CPUs: its CFS quota of {} us is lifted", pod_uid,
                   **lifted);
    }
    return Done{};
  }
  if (lifted.error().code == ErrorCode::kNotFound) return Done{};
  return Error{lifted.error().code, lifted.error().message,
               "let alignd write the cgroups of pods (systemd: ProtectControlGroups=no), or start "
               "it with --keep-pod-cpu-quota if pods are to keep their quota"};
}

}  // namespace alignd::cgroup
