#include "core/cpumanager/packed.h"

#include <string>

#include "core/cpumanager/cpu_accumulator.h"
#include "core/cpumanager/uncore.h"

namespace alignd::cpumanager {

Error NotEnoughCpus(int64_t requested, int available) {
  return {ErrorCode::kInvalidArgument,
          "not enough cpus available to satisfy request: requested=" + std::to_string(requested) +
              ", available=" + std::to_string(available)};
}

Result<CpuSet> TakePacked(const Machine& machine, const PackingRules& rules, const CpuSet& free,
                          int count) {
  if (count <= 0) return CpuSet{};
  CpuAccumulator packing(machine, free, count);
  if (packing.free().Count() < count) return NotEnoughCpus(count, free.Count());

  packing.TakeWholeUpperLevel();
  packing.TakeWholeLowerLevel();
  if (rules.align_to_uncore_caches) TakeUncoreCaches(packing);
  if (packing.satisfied()) return packing.taken();
  if (rules.spread_over_cores) {
    // By number within a socket: consecutive numbers are usually on different cores.
    packing.TakeSingleCpus(packing.Sockets());
    return packing.taken();
  }
  packing.TakeWholeCores();
  if (!packing.satisfied()) packing.TakeSingleCpusOfCores();
  return packing.taken();
}

}  // namespace alignd::cpumanager
