// What each node has of each demand, as whole numbers. Private to this folder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "core/topologymanager/sets/demand_table.h"

namespace alignd::topologymanager {

// Parts of what is wanted of a demand, rounded up: where the nodes of a set have less than kWhole
// in sum, the set does not satisfy the demand. A place that several nodes share has a part of its
// own.
class NodeParts {
 public:
  static constexpr int64_t kWhole = int64_t{1} << 18;
  static constexpr size_t kMaxDemands = 64;  // further demands are left out: some make a bound

  NodeParts(const std::vector<const DemandTable*>& demands, NumaMask nodes);

  size_t demands() const { return parts_.size(); }
  struct Shared {
    size_t demand = 0;
    NumaMask nodes;
    int64_t part = 0;  // a multiple of kQuarters
  };
  static constexpr int64_t kQuarters = 4;
  const std::vector<Shared>& shared() const { return shared_; }
  // In places of this node alone; at most kWhole.
  int64_t Of(size_t demand, int node) const { return parts_[demand][static_cast<size_t>(node)]; }

 private:
  std::vector<std::array<int64_t, NumaMask::kMaxNodes>> parts_;
  std::vector<Shared> shared_;
};

}  // namespace alignd::topologymanager
