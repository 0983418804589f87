// Reads the kernel's cgroup files, and writes CFS quotas and CPU shares.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "cgroup/cpuset_cgroup.h"
#include "cgroup/systemd_units.h"

namespace alignd::cgroup {

// Thread-safe. Version 2 where the mount point has cgroup.controllers with cpuset in it, else
// version 1 with one directory per controller. Paths are those of cgroup_path.h.
class CgroupTree {
 public:
  // `root` is the mount point, /sys/fs/cgroup on a node. `systemd`: what it knows of these cgroups.
  explicit CgroupTree(std::filesystem::path root, SystemdUnits systemd = SystemdUnits());

  bool is_version2() const { return version2_; }

  // The unit whose settings systemd writes to this cgroup, its CPUs among them. nullopt: it writes
  // none; in version 1 it leaves cpusets alone.
  std::optional<std::string> SystemdUnit(const std::string& path) const {
    return version2_ ? UnitOfCgroup(path) : std::nullopt;
  }
  const SystemdUnits& systemd() const { return systemd_; }

  // Errors: kNotFound if there is no such cgroup; kIo.
  Result<CpusetCgroup> OpenCpuset(const std::string& path) const;

  // As CpusetCgroup::Read and CpusetCgroup::ReadCpus.
  Result<Cpuset> ReadCpuset(const std::string& path) const;
  Result<Cpuset> ReadCpus(const std::string& path) const;

  // The files whose change is a change of the cpuset.
  std::vector<std::filesystem::path> CpusetFiles(const std::string& path) const;

  // How many bytes of huge pages of that size ("2MB") the cgroup may have; a very large number for
  // no limit. Errors: kNotFound if there is no such cgroup, or it has no hugetlb controller; kIo;
  // kCorrupt.
  // Source: kernel Documentation/admin-guide/cgroup-v1/hugetlb.rst; cgroup-v2.rst,
  // hugetlb.<hugepagesize>.max.
  Result<int64_t> ReadHugepageLimit(const std::string& path, const std::string& size) const;

  // The CFS quota of one cgroup, in microseconds of CPU time per period; nullopt: none. Errors: as
  // LiftCpuQuota.
  Result<std::optional<int64_t>> ReadCpuQuota(const std::string& path) const;

  // Removes the CFS quota of one cgroup. Returns the quota from before, in microseconds of CPU time
  // per period; nullopt: there was none. While a pod's cgroup has a quota, its containers are
  // throttled even if their own quota is -1.
  // Errors: kNotFound if there is no such cgroup; kIo; kCorrupt.
  // Source: kernel Documentation/scheduler/sched-bwc.rst; cgroup-v2.rst, cpu.max.
  Result<std::optional<int64_t>> LiftCpuQuota(const std::string& path) const;

  // Sets the CFS quota of one cgroup that has none. Its period stays. Returns the same in
  // microseconds of CPU time per second. nullopt: it has a quota already, and nothing is written.
  // Errors: as LiftCpuQuota.
  Result<std::optional<uint64_t>> SetMissingCpuQuota(const std::string& path, int64_t quota) const;

  // The text of cpu.shares (version 2: cpu.weight), and a write of it. The two scales differ, so
  // the text is only written back as it was. Errors: kNotFound if there is no such cgroup; kIo.
  Result<std::string> ReadCpuShares(const std::string& path) const;
  Result<Done> WriteCpuShares(const std::string& path, const std::string& text) const;

  // The files of the CFS quota and of the shares.
  std::vector<std::filesystem::path> CpuFiles(const std::string& path) const;

 private:
  std::string Directory(const char* controller, const std::string& path) const;

  const std::filesystem::path root_;
  const bool version2_;
  const SystemdUnits systemd_;
};

}  // namespace alignd::cgroup
