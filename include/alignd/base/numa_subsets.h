// Sets of NUMA nodes, one after the other.
#pragma once

#include <bit>
#include <cstdint>

#include "alignd/base/numa_mask.h"

namespace alignd {

// Calls `visit(NumaMask)` with every non-empty subset of `nodes`, narrowest first, of equally
// narrow ones the lowest first. For reports and small machines: n nodes have 2^n - 1 subsets.
// Source: kubelet pkg/kubelet/cm/topologymanager/bitmask/bitmask.go, IterateBitMasks.
template <typename Visit>
void ForEachSubset(NumaMask nodes, Visit visit) {
  int positions[NumaMask::kMaxNodes] = {};
  int count = 0;
  for (const int position : nodes) positions[count++] = position;

  const auto spread = [&](uint64_t chosen) {
    NumaMask subset;
    for (const int index : NumaMask::FromBits(chosen)) subset.Add(positions[index]);
    return subset;
  };
  for (int size = 1; size <= count; ++size) {
    // The next larger number with as many bits set, until the highest of this size was seen.
    uint64_t chosen = NumaMask::FirstNodes(size).bits();
    const uint64_t last = chosen << (count - size);
    while (true) {
      visit(spread(chosen));
      if (chosen == last) break;
      const uint64_t carried = chosen + (chosen & -chosen);
      chosen = carried | ((chosen ^ carried) >> 2 >> std::countr_zero(chosen));
    }
  }
}

}  // namespace alignd
