// Narrowest and closest of two sets of NUMA nodes.
#pragma once

#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/machine/machine.h"

namespace alignd::topologymanager {

// The NUMA nodes of a machine as the topology manager sees them. A value.
class NumaInfo {
 public:
  explicit NumaInfo(const Machine& machine);

  NumaMask all() const { return all_; }

  // The narrower of two masks; `current` if they are equal.
  // Source: kubelet pkg/kubelet/cm/topologymanager/numa_info.go, Narrowest.
  NumaMask Narrower(NumaMask current, NumaMask candidate) const;

  // Fewer nodes; then the smaller average distance over all ordered pairs, a node with itself
  // included; then the smaller mask value.
  // Differs: distances are looked up by position, so gaps in the node ids never read past a row.
  // Source: numa_info.go, Closest.
  NumaMask Closer(NumaMask current, NumaMask candidate) const;

  double AverageDistance(NumaMask mask) const;

 private:
  NumaMask all_;
  std::vector<std::vector<int>> distances_;  // by position
};

}  // namespace alignd::topologymanager
