#include "cgroup/narrow.h"

#include <sched.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace alignd::cgroup {
namespace {

Error NotNarrowed(const std::string& path, const CpuSet& cpus, const std::string& what) {
  return {ErrorCode::kIo,
          "cgroup " + path + " was set to CPUs " + cpus.ToString() + ", but " + what,
          "see which program writes to the cgroups of containers"};
}

// The affinity of threads, as far as it is not in a CPU set.
class Outside {
 public:
  explicit Outside(const CpuSet& cpus) : cpus_(cpus), affinity_(CPU_ALLOC(kMaxCpus)) {}

  // Whether the thread may run on a CPU that is not in the set. False if it has ended.
  bool MayRun(int thread) const {
    CPU_ZERO_S(kBytes, affinity_.get());
    if (sched_getaffinity(thread, kBytes, affinity_.get()) != 0) return errno != ESRCH;
    for (const int cpu : cpus_) CPU_CLR_S(static_cast<size_t>(cpu), kBytes, affinity_.get());
    return CPU_COUNT_S(kBytes, affinity_.get()) > 0;
  }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  static constexpr size_t kMaxCpus = CpuSet::kMaxCpu + 1;
  static constexpr size_t kBytes = CPU_ALLOC_SIZE(kMaxCpus);

  const CpuSet& cpus_;
  const std::unique_ptr<cpu_set_t, Free> affinity_;
};

}  // namespace

Result<Done> Narrow(const CgroupTree& cgroups, const std::string& path, const CpuSet& cpus) {
  const Result<CpusetCgroup> cgroup = cgroups.OpenCpuset(path);
  if (!cgroup.ok()) return cgroup.error();
  const Result<Done> written = cgroup->WriteCpus(cpus);
  if (!written.ok()) return written;
  const Result<CpuSet> applied = cgroup->ReadEffectiveCpus();
  if (!applied.ok()) return applied.error();
  // Without a CPU that it may use, a cgroup of version 2 uses those of its parent.
  if (applied->empty() || !cpus.Contains(*applied)) {
    return NotNarrowed(path, cpus, "the kernel applies CPUs " + applied->ToString());
  }
  const Result<std::vector<int>> threads = cgroup->ReadThreads();
  if (!threads.ok()) return threads.error();
  if (threads->empty()) {
    return Error{ErrorCode::kNotFound, "cgroup " + path + " has no thread",
                 "the container has ended, or its processes run in other cgroups"};
  }
  const Outside outside(cpus);
  for (const int thread : *threads) {
    if (outside.MayRun(thread)) {
      return NotNarrowed(path, cpus, "thread " + std::to_string(thread) + " may run on others");
    }
  }
  return Done{};
}

}  // namespace alignd::cgroup
