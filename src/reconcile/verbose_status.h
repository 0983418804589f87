// What runtimes say about a container beyond CRI's fields.
#pragma once

#include <cstdint>
#include <string>

#include "alignd/base/result.h"

namespace alignd::reconcile {

// Of the OCI spec that a container has now.
struct ContainerSpec {
  std::string cgroup;  // a path of cgroup/cgroup_path.h
  // As it was told last; 0: never, or not known.
  int64_t cpu_shares = 0;
  int64_t cpu_quota = 0;   // microseconds per period; -1: none
  int64_t cpu_period = 0;  // microseconds
};

// From the entry `info` of a verbose ContainerStatus: a JSON object in which containerd and CRI-O
// show the OCI spec as `runtimeSpec`.
// Errors: kNotFound if no cgroup is there; kInvalidArgument if it is no path.
Result<ContainerSpec> SpecInStatus(const std::string& info);

}  // namespace alignd::reconcile
