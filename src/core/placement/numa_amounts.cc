#include "core/placement/numa_amounts.h"

#include <algorithm>

#include "alignd/base/saturating_sum.h"
#include "core/memorymanager/memory_request.h"

namespace alignd::placement {

bool HasMemory(const std::vector<NumaAmounts>& parts) {
  return std::ranges::any_of(parts, [](const NumaAmounts& part) {
    return std::ranges::any_of(
        part, [](const auto& one) { return memorymanager::IsMemoryType(one.first); });
  });
}

NumaAmounts SumOf(const std::vector<NumaAmounts>& all) {
  NumaAmounts sum;
  for (const NumaAmounts& amounts : all) {
    for (const auto& [resource, amount] : amounts) {
      sum[resource] = SaturatingSum(sum[resource], amount);
    }
  }
  return sum;
}

// The NUMA nodes are in groups, each of one or more, whatever is assigned: if a part is not more
// than the mean of what is free, a group has it.
bool AreInAnyGroups(const std::vector<NumaAmounts>& parts, NumaAmounts free, int numa_nodes) {
  constexpr char kMemory[] = "memory";
  for (const NumaAmounts& part : parts) {
    const auto wanted = part.find(kMemory);
    if (part.size() != 1 || wanted == part.end()) return false;
    if (wanted->second > free[kMemory] / numa_nodes) return false;
    free[kMemory] -= wanted->second;
  }
  return true;
}

AmountRow RowOf(const NumaAmounts& amounts, const std::vector<std::string>& resources) {
  AmountRow row(resources.size());
  for (size_t i = 0; i < resources.size(); ++i) {
    const auto found = amounts.find(resources[i]);
    if (found != amounts.end()) row[i] = found->second;
  }
  return row;
}

}  // namespace alignd::placement
