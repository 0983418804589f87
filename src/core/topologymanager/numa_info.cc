#include "alignd/topologymanager/numa_info.h"

namespace alignd::topologymanager {

NumaInfo::NumaInfo(const Machine& machine) : all_(machine.all_numa()) {
  for (const int from : all_) {
    std::vector<int>& row = distances_.emplace_back();
    for (const int to : all_) row.push_back(machine.Distance(from, to));
  }
}

NumaMask NumaInfo::Narrower(NumaMask current, NumaMask candidate) const {
  return candidate.IsNarrowerThan(current) ? candidate : current;
}

NumaMask NumaInfo::Closer(NumaMask current, NumaMask candidate) const {
  if (current.Count() != candidate.Count()) return Narrower(current, candidate);
  const double current_distance = AverageDistance(current);
  const double candidate_distance = AverageDistance(candidate);
  if (current_distance == candidate_distance) return Narrower(current, candidate);
  return candidate_distance < current_distance ? candidate : current;
}

double NumaInfo::AverageDistance(NumaMask mask) const {
  if (mask.empty()) return 0;
  // Sums of integers are exact, so the order of the pairs does not matter.
  double sum = 0;
  for (const int from : mask) {
    for (const int to : mask) {
      sum += distances_[static_cast<size_t>(from)][static_cast<size_t>(to)];
    }
  }
  return sum / (static_cast<double>(mask.Count()) * mask.Count());
}

}  // namespace alignd::topologymanager
