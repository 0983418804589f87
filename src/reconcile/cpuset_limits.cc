// Cgroups above containers that are narrower than the containers' sets.
#include <spdlog/spdlog.h>

#include <optional>
#include <string>
#include <utility>

#include "cgroup/parent_cpuset.h"
#include "cgroup/system_partition.h"
#include "host/log_event.h"
#include "reconcile/cpuset_guard.h"

namespace alignd::reconcile {
namespace {

using admission::Assignment;

// The key of a condition.
std::string CutOf(const std::string& id) { return "narrower cgroup above " + id; }

std::string OrNone(const CpuSet& cpus) { return cpus.empty() ? "none of them" : cpus.ToString(); }

}  // namespace

// The kubelet gives the pods of its system partition reserved CPUs. Only containers of the shared
// pool may be without others, as in cgroup::RequireInParent. Files that cannot be read are found
// elsewhere.
bool CpusetGuard::IsCutByPartition(const std::string& path, const Assignment& assignment) const {
  const bool is_of_pool =
      assignment.exclusive.empty() && !assignment.shares_pod_cpus && !assignment.share;
  if (!is_of_pool || !node_.cpu) return false;
  const Result<std::optional<CpuSet>> cpus = cgroup::ReadPartitionCpus(cgroups_, path);
  return cpus.ok() && cpus->has_value() && node_.cpu->reserved.Contains(**cpus);
}

std::string CpusetGuard::DescribeAbove(const std::string& id, const std::string& path,
                                       const CpuSet& cpus) const {
  const auto narrow = cgroup::FindNarrowerAbove(cgroups_, path, cpus);
  if (!narrow.ok()) {
    static host::LineLimit limit("cgroups above containers that cannot be read");
    if (limit.Allow()) spdlog::warn("container {}: {}", id, narrow.error().Text());
    return "";
  }
  if (!*narrow) return "";
  return "cgroup " + (*narrow)->path + " may use " +
         ((*narrow)->may_use.empty() ? "no CPUs"
                                     : "CPUs " + (*narrow)->may_use.ToString() + " only");
}

void CpusetGuard::ReportCut(const std::string& id, Guarded& container, const Assignment& assignment,
                            const cgroup::Cpuset& now) {
  // The two files are read one after the other: if a write came in between, the second has more.
  const bool is_cut = !(now.cpus - now.effective_cpus).empty();
  if (registry_.KernelAllows(id, is_cut && !now.effective_cpus.empty()
                                     ? std::optional(now.effective_cpus)
                                     : std::nullopt)) {
    apply_again_();  // a container may wait for these CPUs
  }
  std::string sign;
  if (is_cut && !IsCutByPartition(*container.path, assignment)) {
    const std::string above = DescribeAbove(id, *container.path, now.cpus);
    sign = NameOf(SubjectOf(id, container)) + " has CPUs " + now.cpus.ToString() +
           ", but may use only " + OrNone(now.effective_cpus) +
           (above.empty() ? "" : ", as " + above);
  }
  SetCut(id, container, std::move(sign));
}

// In version 1, the kernel refuses a set that a cgroup above does not have, and the runtime has no
// more to say than "permission denied". An update that is only under way has been applied before
// `look_above`.
void CpusetGuard::FindCauseAbove(const std::string& id, Guarded& container,
                                 const Assignment& assignment) {
  const Clock::time_point time = Clock::now();
  if (!container.look_above) container.look_above = time + options_.look_above;
  if (time < *container.look_above) return;
  container.look_above = time + options_.look_above;
  const std::string above = IsCutByPartition(*container.path, assignment)
                                ? ""
                                : DescribeAbove(id, *container.path, assignment.cpuset);
  SetCut(id, container,
         above.empty() ? ""
                       : NameOf(SubjectOf(id, container)) + " is to have CPUs " +
                             assignment.cpuset.ToString() + ", but " + above);
}

void CpusetGuard::SetCut(const std::string& id, Guarded& container, std::string sign) {
  if (sign == container.cut) return;
  container.cut = std::move(sign);
  if (container.cut.empty()) return CutEnded(id);
  conditions_.SawConflictingManager(
      CutOf(id), container.cut,
      "a cgroup above it is narrower or CPUs are offline: widen cpuset.cpus of its parents "
      "(AllowedCPUs= of their slices)",
      kUntilItEnds);
}

void CpusetGuard::CutEnded(const std::string& id) { conditions_.ConflictingManagerGone(CutOf(id)); }

}  // namespace alignd::reconcile
