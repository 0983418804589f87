// The distances between the NUMA nodes of a set.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/machine/machine.h"

namespace alignd::topologymanager {

// The NUMA nodes of a machine as the topology manager sees them. A value.
class NumaInfo {
 public:
  explicit NumaInfo(const Machine& machine);

  NumaMask all() const { return all_; }

  // Differs: distances are looked up by position, so gaps in the node ids never read past a row.
  // Source: kubelet pkg/kubelet/cm/topologymanager/numa_info.go, Closest.
  double AverageDistance(NumaMask mask) const;

  // Over all ordered pairs, a node with itself included. Orders masks of one size as the average
  // does, without rounding.
  int64_t DistanceSum(NumaMask mask) const;

  int Distance(int from, int to) const {
    return distances_[static_cast<size_t>(from)][static_cast<size_t>(to)];
  }

 private:
  NumaMask all_;
  std::vector<std::vector<int>> distances_;  // by position
};

}  // namespace alignd::topologymanager
