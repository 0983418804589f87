// What runtimes report of a container beyond CRI's fields.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"

namespace alignd::reconcile {

// From the present OCI spec of a container.
struct ContainerSpec {
  std::string cgroup;  // a path of cgroup/cgroup_path.h
  // The last values that were set; 0: none, or not known.
  int64_t cpu_shares = 0;
  int64_t cpu_quota = 0;     // microseconds per period; -1: none
  int64_t cpu_period = 0;    // microseconds
  CpuSet cpus{};             // empty: none, or not known
  int64_t memory_limit = 0;  // bytes; -1: none
};

// From the entry `info` of a verbose ContainerStatus: a JSON object in which containerd and CRI-O
// show the OCI spec as `runtimeSpec`.
// Errors: kNotFound if it has no cgroup path; kInvalidArgument if that is not a path.
Result<ContainerSpec> SpecInStatus(const std::string& info);

// From the same entry: the CDI names of the request with which the container was created, which
// containerd shows as `config`; nullopt: the runtime does not show it.
std::optional<std::set<std::string>> CdiNamesInStatus(const std::string& info);

// How cgroups of pods are made and named: by systemd, as slices, or directly.
enum class CgroupDriver { kSystemd, kCgroupfs };

std::string_view ToString(CgroupDriver driver);

// From the entry `config` of a verbose Status: a JSON object in which containerd shows its own
// configuration. It is that of its default runtime handler; if that is not one with runc, that of
// all its handlers with runc. Errors: kNotFound if it has none; kInvalidArgument if these handlers
// differ. Source: containerd pkg/cri/config/config.go; the shim's options, SystemdCgroup;
// internal/cri/server/runtime_config_linux.go, getCgroupDriver.
Result<CgroupDriver> CgroupDriverInStatus(const std::string& config);

// The driver that made the cgroup of a pod's container; nullopt for any other path.
std::optional<CgroupDriver> DriverOfCgroup(std::string_view path);

}  // namespace alignd::reconcile
