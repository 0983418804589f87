#include "core/cpumanager/core_sum.h"

#include <cstddef>
#include <utility>

namespace alignd::cpumanager {

CoreSum::CoreSum(std::vector<const CpuGroup*> cores, int count)
    : cores_(std::move(cores)),
      count_(count),
      reachable_(cores_.size() + 1, std::vector<bool>(static_cast<size_t>(count) + 1)) {
  reachable_.back()[0] = true;
  for (size_t core = cores_.size(); core-- > 0;) {
    const auto size = static_cast<size_t>(cores_[core]->cpus.Count());
    for (size_t sum = 0; sum < reachable_[core].size(); ++sum) {
      reachable_[core][sum] =
          reachable_[core + 1][sum] || (sum >= size && reachable_[core + 1][sum - size]);
    }
  }
}

CpuSet CoreSum::First() const {
  CpuSet cpus;
  auto left = static_cast<size_t>(count_);
  for (size_t core = 0; core < cores_.size(); ++core) {
    const auto size = static_cast<size_t>(cores_[core]->cpus.Count());
    if (size > left || !reachable_[core + 1][left - size]) continue;
    cpus |= cores_[core]->cpus;
    left -= size;
  }
  return cpus;
}

}  // namespace alignd::cpumanager
