#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

NumaInfo::NumaInfo(const Machine& machine) : all_(machine.all_numa()) {
  for (const int from : all_) {
    std::vector<int>& row = distances_.emplace_back();
    for (const int to : all_) row.push_back(machine.Distance(from, to));
  }
}

double NumaInfo::AverageDistance(NumaMask mask) const {
  if (mask.empty()) return 0;
  return static_cast<double>(DistanceSum(mask)) /
         (static_cast<double>(mask.Count()) * mask.Count());
}

int64_t NumaInfo::DistanceSum(NumaMask mask) const {
  int64_t sum = 0;
  for (const int from : mask) {
    for (const int to : mask) sum += Distance(from, to);
  }
  return sum;
}

}  // namespace alignd::topologymanager
