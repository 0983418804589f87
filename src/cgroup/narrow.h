// Takes CPUs from the processes of a cgroup by a direct write.
#pragma once

#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"

namespace alignd::cgroup {

// Sets the cgroup's cpuset.cpus, and checks that no thread of it is on another CPU: the CPUs that
// the kernel applies must be among `cpus`, and so must the affinity of each thread, also in cgroups
// below. When the write has returned, the kernel has moved the threads. Takes about 0.1 ms. May
// block.
// Errors: kNotFound if there is no such cgroup, or it has no thread, so that nothing is proved; kIo
// if the write fails or has another effect: for example in version 1, where the set of a cgroup
// must contain those of the cgroups below it.
// Source: kernel Documentation/admin-guide/cgroup-v1/cpusets.rst; cgroup-v2.rst.
Result<Done> Narrow(const CgroupTree& cgroups, const std::string& path, const CpuSet& cpus);

}  // namespace alignd::cgroup
