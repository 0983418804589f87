#include "cgroup/pod_quota.h"

#include <spdlog/spdlog.h>

#include "cgroup/cgroup_path.h"

namespace alignd::cgroup {

namespace {

// Otherwise the former quota, or none, is back after a daemon-reload.
void SetInSystemd(const CgroupTree& cgroups, const std::string& path,
                  std::optional<uint64_t> per_second) {
  const std::optional<std::string> unit = UnitOfCgroup(path);
  if (!unit) return;
  const Result<Done> set = cgroups.systemd().SetCpuQuota(*unit, per_second);
  if (!set.ok()) spdlog::info("CPUQuota= of {} stays: {}", *unit, set.error().Text());
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
  if (lifted.ok() && *lifted) SetInSystemd(cgroups, *path, std::nullopt);
  if (lifted.ok()) return lifted;
  if (lifted.error().code == ErrorCode::kNotFound) return std::optional<int64_t>();
  return Error{lifted.error().code, lifted.error().message,
               "let alignd write the cgroups of pods (systemd: ProtectControlGroups=no), or start "
               "it with --keep-pod-cpu-quota if pods are to keep their quota"};
}

Result<bool> RestorePodQuota(const CgroupTree& cgroups, const std::string& path, int64_t quota) {
  const Result<std::optional<uint64_t>> per_second = cgroups.SetMissingCpuQuota(path, quota);
  if (!per_second.ok()) {
    if (per_second.error().code == ErrorCode::kNotFound) return false;
    return per_second.error();
  }
  if (!*per_second) return false;
  // systemd keeps whole percents, and cuts off the rest.
  constexpr uint64_t kPercent = 10'000;
  SetInSystemd(cgroups, path, (**per_second + kPercent - 1) / kPercent * kPercent);
  return true;
}

std::string LiftedText(const std::string& pod, int64_t quota) {
  return pod + " has exclusive CPUs: its CFS quota of " + std::to_string(quota) + " us is lifted";
}

}  // namespace alignd::cgroup
