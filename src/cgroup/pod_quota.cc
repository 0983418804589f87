#include "cgroup/pod_quota.h"

#include <spdlog/spdlog.h>

#include "cgroup/cgroup_path.h"

namespace alignd::cgroup {

namespace {

// Otherwise the quota is back after a daemon-reload, until it is lifted once more.
void LiftInSystemd(const CgroupTree& cgroups, const std::string& path) {
  const std::optional<std::string> unit = UnitOfCgroup(path);
  if (!unit) return;
  const Result<Done> lifted = cgroups.systemd().LiftCpuQuota(*unit);
  if (!lifted.ok()) spdlog::info("CPUQuota= of {} stays: {}", *unit, lifted.error().Text());
}

}  // namespace

std::optional<std::string> PathOfPod(const std::string& parent, const std::string& pod_uid) {
  const Result<std::string> path = PathOfParent(parent);
  if (!path.ok() || !IsOfPod(*path, pod_uid)) return std::nullopt;
  return *path;
}

Result<std::optional<int64_t>> LiftPodQuota(const CgroupTree& cgroups, const std::string& parent,
                                            const std::string& pod_uid) {
  const std::optional<std::string> path = PathOfPod(parent, pod_uid);
  if (!path) return std::optional<int64_t>();
  Result<std::optional<int64_t>> lifted = cgroups.LiftCpuQuota(*path);
  if (lifted.ok() && *lifted) LiftInSystemd(cgroups, *path);
  if (lifted.ok()) return lifted;
  if (lifted.error().code == ErrorCode::kNotFound) return std::optional<int64_t>();
  return Error{lifted.error().code, lifted.error().message,
               "let alignd write the cgroups of pods (systemd: ProtectControlGroups=no), or start "
               "it with --keep-pod-cpu-quota if pods are to keep their quota"};
}

std::string LiftedText(const std::string& pod, int64_t quota) {
  return pod + " has exclusive CPUs: its CFS quota of " + std::to_string(quota) + " us is lifted";
}

}  // namespace alignd::cgroup
