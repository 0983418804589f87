// Workloads of which one has made another one: their pods are planned or counted once.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "alignd/placement/manifest.h"

namespace alignd::placement {
namespace {

std::string DescribeWorkload(const Workload& workload) {
  return workload.kind + " " + workload.name_space + "/" + workload.name;
}

// Whether Jobs count beside their CronJob. What is planned of a CronJob is its next Job: others can
// still run beside it, with other counts than its template has.
enum class JobsOfCronJobs { kOwn, kOwned };

// Finds the controller of a workload among all.
class Controllers {
 public:
  Controllers(const std::vector<Workload>& all, JobsOfCronJobs jobs) : jobs_(jobs) {
    for (const Workload& one : all)
      by_name_.emplace(KeyOf(one.name_space, one.kind, one.name), &one);
  }

  // Null: it has none, or that is not among them.
  const Workload* Of(const Workload& workload) const {
    if (!workload.controller) return nullptr;
    if (jobs_ == JobsOfCronJobs::kOwn && workload.controller->kind == "CronJob") return nullptr;
    const auto found = by_name_.find(
        KeyOf(workload.name_space, workload.controller->kind, workload.controller->name));
    if (found == by_name_.end()) return nullptr;
    const std::string& uid = workload.controller->uid;
    const bool is_other = !uid.empty() && !found->second->uid.empty() && uid != found->second->uid;
    return is_other ? nullptr : found->second;
  }

  // The one above all others. Null: as Of, or they name each other in a circle.
  const Workload* Topmost(const Workload& workload) const {
    std::set<const Workload*> seen = {&workload};
    const Workload* top = nullptr;
    for (const Workload* above = Of(workload); above != nullptr; above = Of(*above)) {
      if (!seen.insert(above).second) return nullptr;
      top = above;
    }
    return top;
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;
  static Key KeyOf(const std::string& name_space, const std::string& kind,
                   const std::string& name) {
    return {name_space, kind, name};
  }

  const JobsOfCronJobs jobs_;
  std::map<Key, const Workload*> by_name_;
};

}  // namespace

void LeaveOutOwned(Manifests& manifests) {
  const Controllers controllers(manifests.workloads, JobsOfCronJobs::kOwn);
  std::vector<Workload> kept;
  for (const Workload& workload : manifests.workloads) {
    if (const Workload* const top = controllers.Topmost(workload)) {
      manifests.skipped.push_back(DescribeWorkload(workload) + " is of " + DescribeWorkload(*top));
    } else {
      kept.push_back(workload);
    }
  }
  manifests.workloads = std::move(kept);
}

void LeaveOutControllers(Manifests& manifests) {
  const Controllers controllers(manifests.workloads, JobsOfCronJobs::kOwned);
  std::set<const Workload*> with_pods;
  for (const Workload& workload : manifests.workloads) {
    const Workload* const above = controllers.Of(workload);
    if (above != nullptr && controllers.Topmost(workload) != nullptr) with_pods.insert(above);
  }
  std::vector<Workload> kept;
  for (const Workload& workload : manifests.workloads) {
    if (with_pods.contains(&workload)) {
      manifests.skipped.push_back(DescribeWorkload(workload) + " has pods that are named, too");
    } else {
      kept.push_back(workload);
    }
  }
  manifests.workloads = std::move(kept);
}

}  // namespace alignd::placement
