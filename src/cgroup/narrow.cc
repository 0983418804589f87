#include "cgroup/narrow.h"

#include <sched.h>

#include <cerrno>
#include <memory>
#include <vector>

namespace alignd::cgroup {
namespace {

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

Result<Narrowing> Narrowing::Write(std::shared_ptr<const CpusetCgroup> cgroup, std::string path,
                                   CpuSet cpus) {
  const Result<Done> written = cgroup->WriteCpus(cpus);
  if (!written.ok()) return written.error();
  return Narrowing(std::move(cgroup), std::move(path), std::move(cpus));
}

Result<CpuSet> Narrowing::Prove() const {
  const Result<CpuSet> applied = cgroup_->ReadEffectiveCpus();
  if (!applied.ok()) return applied;
  // Without a CPU that it may use, a cgroup of version 2 uses those of its parent.
  if (applied->empty() || !cpus_.Contains(*applied)) {
    return NotNarrowed("the kernel applies CPUs " + applied->ToString());
  }
  const Result<std::vector<int>> threads = cgroup_->ReadThreads();
  if (!threads.ok()) return threads.error();
  if (threads->empty()) {
    return Error{ErrorCode::kNotFound, "cgroup " + path_ + " has no thread",
                 "the container has ended, or its processes run in other cgroups"};
  }
  const Outside outside(cpus_);
  for (const int thread : *threads) {
    if (outside.MayRun(thread)) {
      return NotNarrowed("thread " + std::to_string(thread) + " may run on others");
    }
  }
  return applied;
}

Error Narrowing::NotNarrowed(const std::string& what) const {
  return {ErrorCode::kIo,
          "cgroup " + path_ + " was set to CPUs " + cpus_.ToString() + ", but " + what,
          "see which program writes to the cgroups of containers"};
}

}  // namespace alignd::cgroup
