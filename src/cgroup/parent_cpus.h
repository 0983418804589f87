// Whether a new container may run on the CPUs that it is assigned.
#pragma once

#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "cgroup/cgroup_tree.h"

namespace alignd::cgroup {

// Requires that the kernel lets cgroups below `parent`, the cgroup parent of a sandbox, run on all
// of `cpus`. The nearest cgroup above that has a cpuset decides. In version 2, a cgroup without any
// CPU of its parent runs on all CPUs of the parent, also on exclusive ones of other containers; in
// version 1 the runtime fails. May block. Errors: kUnavailable, naming the cgroup, its CPUs and the
// remedy; kIo, kCorrupt as ReadCpuset. None if no cgroup on the path has a cpuset. Source: kernel
// Documentation/admin-guide/cgroup-v2.rst, cpuset.cpus; cgroup-v1/cpusets.rst.
Result<Done> RequireInParent(const CgroupTree& cgroups, const std::string& parent,
                             const CpuSet& cpus);

}  // namespace alignd::cgroup
