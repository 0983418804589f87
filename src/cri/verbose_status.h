// What runtimes say about a container beyond CRI's fields.
#pragma once

#include <string>

#include "alignd/base/result.h"

namespace alignd::cri {

// The cgroup path (cgroup/cgroup_path.h) in the entry `info` of a verbose ContainerStatus: a JSON
// object in which containerd and CRI-O show the OCI spec as `runtimeSpec`.
// Errors: kNotFound if it is not there; kInvalidArgument if it is no path.
Result<std::string> CgroupInStatus(const std::string& info);

}  // namespace alignd::cri
