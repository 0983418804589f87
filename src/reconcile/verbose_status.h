// What runtimes report of a container beyond CRI's fields.
#pragma once

#include <cstdint>
#include <string>

#include "alignd/base/result.h"

namespace alignd::reconcile {

// From the present OCI spec of a container.
struct ContainerSpec {
  std::string cgroup;  // a path of cgroup/cgroup_path.h
  // The last values that were set; 0: none, or not known.
  int64_t cpu_shares = 0;
  int64_t cpu_quota = 0;   // microseconds per period; -1: none
  int64_t cpu_period = 0;  // microseconds
};

// From the entry `info` of a verbose ContainerStatus: a JSON object in which containerd and CRI-O
// show the OCI spec as `runtimeSpec`.
// Errors: kNotFound if it has no cgroup path; kInvalidArgument if that is not a path.
Result<ContainerSpec> SpecInStatus(const std::string& info);

}  // namespace alignd::reconcile
