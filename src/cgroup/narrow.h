// Takes CPUs from the processes of a cgroup by a direct write.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "cgroup/cpuset_cgroup.h"

namespace alignd::cgroup {

// One write to cpuset.cpus, and its proof. Each takes some 0.05 ms, and may block. A value.
// Source: kernel Documentation/admin-guide/cgroup-v1/cpusets.rst; cgroup-v2.rst.
class Narrowing {
 public:
  // Sets the cgroup's cpuset.cpus. When this has returned, the kernel has moved the threads.
  // `path`: for errors. Errors: kNotFound if the cgroup is gone; kIo if the write fails: for
  // example in version 1, where the set of a cgroup must contain those of the cgroups below it.
  static Result<Narrowing> Write(std::shared_ptr<const CpusetCgroup> cgroup, std::string path,
                                 CpuSet cpus);

  // Checks that no thread of the cgroup may run on another CPU: the CPUs that the kernel applies
  // must be among those that were written, and so must the affinity of each thread, also in cgroups
  // below. Returns the CPUs that the kernel applies.
  // Errors: kNotFound if the cgroup is gone or has no thread, so that nothing is proved; kIo if the
  // write had another effect.
  Result<CpuSet> Prove() const;

 private:
  Narrowing(std::shared_ptr<const CpusetCgroup> cgroup, std::string path, CpuSet cpus)
      : cgroup_(std::move(cgroup)), path_(std::move(path)), cpus_(std::move(cpus)) {}

  Error NotNarrowed(const std::string& what) const;

  std::shared_ptr<const CpusetCgroup> cgroup_;
  std::string path_;
  CpuSet cpus_;
};

}  // namespace alignd::cgroup
