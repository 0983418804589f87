#include "cgroup/parent_cpuset.h"

#include <optional>
#include <utility>

#include "cgroup/cgroup_path.h"
#include "cgroup/system_partition.h"

namespace alignd::cgroup {
namespace {

constexpr char kGiveCpus[] =
    "find the program that narrows this cgroup or one above it, and give it all CPUs that alignd "
    "assigns; or reserve the CPUs that this node may not use (reservedSystemCPUs)";
constexpr char kGivePartition[] =
    "let systemPartition.cpuset of the kubelet have CPUs of reservedSystemCPUs only";
constexpr char kGiveMemoryNodes[] =
    "find the program that narrows cpuset.mems of this cgroup or of one above it, and give it all "
    "NUMA nodes";

Error Fault(const std::string& assigned, const std::string& path, const std::string& may_use,
            const char* remedy) {
  return {ErrorCode::kUnavailable,
          "the container " + assigned + ", but cgroup " + path + " may use " + may_use + " only",
          remedy};
}

std::optional<Error> FaultIn(const Cpuset& cpuset, const std::string& path, bool is_version2,
                             bool is_in_partition, const ParentNeeds& needs) {
  const std::string cpus = "CPUs " + cpuset.effective_cpus.ToString();
  if (!cpuset.effective_cpus.Contains(needs.exclusive)) {
    return Fault("is assigned CPUs " + needs.exclusive.ToString(), path, cpus, kGiveCpus);
  }
  const bool may_be_without = is_in_partition && !cpuset.effective_cpus.empty() &&
                              needs.shared_in_partition.Contains(cpuset.effective_cpus);
  if (is_version2 && !needs.shared.empty() && !may_be_without &&
      !cpuset.effective_cpus.Intersects(needs.shared)) {
    return Fault("runs in the shared pool, CPUs " + needs.shared.ToString(), path, cpus,
                 is_in_partition ? kGivePartition : kGiveCpus);
  }
  // In version 1, the runtime fills a parent that has no memory nodes yet.
  const bool is_filled = !is_version2 && cpuset.mems.empty();
  if (!is_filled && !cpuset.effective_mems.Contains(needs.memory_nodes)) {
    return Fault("is assigned memory of NUMA nodes " + needs.memory_nodes.ToString(), path,
                 "NUMA nodes " + cpuset.effective_mems.ToString(), kGiveMemoryNodes);
  }
  return std::nullopt;
}

}  // namespace

Result<Done> RequireInParent(const CgroupTree& cgroups, const std::string& parent,
                             const ParentNeeds& needs) {
  const Result<std::string> whole = PathOfParent(parent);
  if (!whole.ok()) return Done{};  // the runtime refuses such a parent
  const Result<std::optional<CpuSet>> partition = ReadPartitionCpus(cgroups, *whole);
  if (!partition.ok()) return partition.error();
  for (std::string path = *whole; !path.empty(); path.erase(path.rfind('/'))) {
    const Result<Cpuset> cpuset = cgroups.ReadCpuset(path);
    if (!cpuset.ok() && cpuset.error().code == ErrorCode::kNotFound) continue;
    if (!cpuset.ok()) return cpuset.error();
    // In version 1, the runtime fills a parent that has no CPUs yet.
    if (!cgroups.is_version2() && cpuset->cpus.empty()) continue;
    std::optional<Error> fault =
        FaultIn(*cpuset, path, cgroups.is_version2(), partition->has_value(), needs);
    if (fault) return *std::move(fault);
    return Done{};
  }
  return Done{};
}

Result<std::optional<NarrowCgroup>> FindNarrowerAbove(const CgroupTree& cgroups, std::string path,
                                                      const CpuSet& cpus) {
  std::optional<NarrowCgroup> highest;
  for (path.erase(path.rfind('/')); !path.empty(); path.erase(path.rfind('/'))) {
    Result<Cpuset> cpuset = cgroups.ReadCpus(path);
    if (!cpuset.ok() && cpuset.error().code == ErrorCode::kNotFound) continue;
    if (!cpuset.ok()) return cpuset.error();
    if (!cgroups.is_version2() && cpuset->cpus.empty()) continue;
    if (!cpuset->effective_cpus.Contains(cpus)) {
      highest = NarrowCgroup{path, std::move(cpuset->effective_cpus)};
    }
  }
  return highest;
}

}  // namespace alignd::cgroup
