#include "cgroup/parent_cpus.h"

#include "cgroup/cgroup_path.h"

namespace alignd::cgroup {

Result<Done> RequireInParent(const CgroupTree& cgroups, const std::string& parent,
                             const CpuSet& cpus) {
  const Result<std::string> whole = PathOfParent(parent);
  if (!whole.ok()) return Done{};  // the runtime refuses such a parent
  for (std::string path = *whole; !path.empty(); path.erase(path.rfind('/'))) {
    const Result<Cpuset> cpuset = cgroups.ReadCpuset(path);
    if (!cpuset.ok() && cpuset.error().code == ErrorCode::kNotFound) continue;
    if (!cpuset.ok()) return cpuset.error();
    // In version 1, the runtime fills a parent that has no CPUs yet.
    if (!cgroups.is_version2() && cpuset->cpus.empty()) continue;
    if (cpuset->effective_cpus.Contains(cpus)) return Done{};
    return Error{
        ErrorCode::kUnavailable,
        "the container is assigned CPUs " + cpus.ToString() + ", but cgroup " + path +
            " may use CPUs " + cpuset->effective_cpus.ToString() + " only",
        "find the program that narrows this cgroup or one above it, and give it all CPUs that "
        "alignd assigns; or reserve the CPUs that this node may not use (reservedSystemCPUs)"};
  }
  return Done{};
}

}  // namespace alignd::cgroup
