#include "cgroup/system_partition.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace alignd::cgroup {
namespace {

// With --cgroup-root=/a, the names of slices begin with `a-`.
bool IsPartitionSlice(std::string_view part) {
  constexpr std::string_view kPartition = "kubepods-system.slice";
  return part == kPartition || part.ends_with("-" + std::string(kPartition));
}

}  // namespace

std::optional<std::string> SystemPartitionOf(const std::string& path) {
  std::string_view above;
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find('/', begin + 1), path.size());
    const std::string_view part = std::string_view(path).substr(begin + 1, end - begin - 1);
    const bool is_partition = (part == "system" && above == "kubepods") || IsPartitionSlice(part);
    if (is_partition && end < path.size()) return path.substr(0, end);
    above = part;
    begin = end;
  }
  return std::nullopt;
}

Result<std::optional<CpuSet>> ReadPartitionCpus(const CgroupTree& cgroups,
                                                const std::string& path) {
  const std::optional<std::string> partition = SystemPartitionOf(path);
  if (!partition || !cgroups.is_version2()) return std::optional<CpuSet>();
  Result<Cpuset> cpuset = cgroups.ReadCpus(*partition);
  if (!cpuset.ok() && cpuset.error().code == ErrorCode::kNotFound) return std::optional<CpuSet>();
  if (!cpuset.ok()) return cpuset.error();
  if (cpuset->cpus.empty()) return std::optional<CpuSet>();
  return std::optional(std::move(cpuset->effective_cpus));
}

}  // namespace alignd::cgroup
