// Sets of NUMA nodes, one after the other: what hint generation walks through.
#pragma once

#include <bit>
#include <cstdint>

#include "alignd/base/numa_mask.h"

namespace alignd {

// All non-empty subsets are walked of up to this many nodes.
inline constexpr int kMaxNodesWalkedFully = 12;

// Calls `visit(NumaMask)` with the non-empty subsets of `nodes`, narrowest first. Of more than
// kMaxNodesWalkedFully nodes only the small subsets, as many whole sizes as fit into 2^12 sets, and
// the full set.
// Differs: the kubelet walks all of them and needs hours from about 30 nodes on.
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
  uint64_t left = uint64_t{1} << kMaxNodesWalkedFully;
  uint64_t sets_of_size = 1;  // count choose size
  for (int size = 1; size <= count; ++size) {
    sets_of_size = sets_of_size * static_cast<uint64_t>(count - size + 1) / uint64_t(size);
    if (sets_of_size > left) {
      visit(nodes);
      return;
    }
    left -= sets_of_size;
    // The next larger number with as many bits set, until all sets of this size were seen.
    uint64_t chosen = NumaMask::FirstNodes(size).bits();
    for (uint64_t i = 0; i < sets_of_size; ++i) {
      visit(spread(chosen));
      const uint64_t carried = chosen + (chosen & -chosen);
      chosen = carried == 0 ? 0 : carried | ((chosen ^ carried) >> 2 >> std::countr_zero(chosen));
    }
  }
}

}  // namespace alignd
