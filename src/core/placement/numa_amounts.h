// Amounts of what containers have or request of NUMA nodes. Private to the core.
#pragma once

#include <string>
#include <vector>

#include "alignd/placement/guessed_places.h"
#include "core/placement/numa_search.h"

namespace alignd::placement {

// The name of CPUs in NumaAmounts.
inline constexpr char kCpuName[] = "cpu";

bool HasMemory(const std::vector<NumaAmounts>& parts);

NumaAmounts SumOf(const std::vector<NumaAmounts>& all);

// The amounts of these resources; 0 of those that it does not have.
AmountRow RowOf(const NumaAmounts& amounts, const std::vector<std::string>& resources);

// Whether parts with memory only, without topology policy, fit in any case beside what leaves
// `free` of all NUMA nodes together.
bool AreInAnyGroups(const std::vector<NumaAmounts>& parts, NumaAmounts free, int numa_nodes);

}  // namespace alignd::placement
