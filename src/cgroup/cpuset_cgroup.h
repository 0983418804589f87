// One cgroup of the cpuset controller.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "host/file.h"

namespace alignd::cgroup {

// The memory nodes are NUMA node ids.
struct Cpuset {
  CpuSet cpus;  // cpuset.cpus; empty in version 2: as the parent
  CpuSet mems;  // cpuset.mems, likewise
  // What the kernel applies: a parent may be narrower, a CPU offline.
  CpuSet effective_cpus;
  CpuSet effective_mems;

  friend bool operator==(const Cpuset&, const Cpuset&) = default;
};

// Its directory is open, so that several of its files are found without walking the whole path for
// each: before a container with exclusive CPUs starts, hundreds of cgroups are written and read.
// All errors: kNotFound if there is no such cgroup, or no longer; kIo; kCorrupt if a file has no
// such value. Source: kernel Documentation/admin-guide/cgroup-v1/cpusets.rst, cgroup-v2.rst.
class CpusetCgroup {
 public:
  // `directory`: of the cpuset controller in version 1.
  static Result<CpusetCgroup> Open(std::string directory, bool is_version2);

  Result<Cpuset> Read() const;
  Result<Cpuset> ReadCpus() const;  // without memory nodes, which are empty in the result
  Result<CpuSet> ReadEffectiveCpus() const;
  Result<Done> WriteCpus(const CpuSet& cpus) const;

  // The ids of the threads in the cgroup and in those below it.
  // Source: kernel Documentation/admin-guide/cgroup-v1/cgroups.rst (tasks); cgroup-v2.rst
  // (cgroup.threads).
  Result<std::vector<int>> ReadThreads() const;

 private:
  CpusetCgroup(host::Directory directory, bool is_version2)
      : directory_(std::move(directory)), is_version2_(is_version2) {}

  std::string PathOf(const std::string& name) const;  // a file or a cgroup in this one
  Result<CpuSet> ReadList(const char* name) const;
  Result<Done> AddThreads(std::vector<int>& threads) const;
  Result<std::vector<std::string>> CgroupsBelow() const;  // names

  host::Directory directory_;
  bool is_version2_;
};

}  // namespace alignd::cgroup
