#include "alignd/cpumanager/cpu_packing.h"

#include "core/cpumanager/distributed.h"
#include "core/cpumanager/packed.h"

namespace alignd::cpumanager {

Result<CpuSet> TakeCpus(const Machine& machine, const PolicyOptions& options, const CpuSet& free,
                        int64_t count) {
  if (count <= 0) return CpuSet{};
  if (count > free.Count()) return NotEnoughCpus(count, free.Count());
  const int cpus = static_cast<int>(count);
  if (options.distribute_cpus_across_numa) {
    const int group = options.full_pcpus_only ? machine.cpus_per_core() : 1;
    return TakeDistributed(machine, group, free, cpus, options.on_most_numa_nodes);
  }
  const PackingRules rules{.align_to_uncore_caches = options.prefer_align_cpus_by_uncorecache,
                           .spread_over_cores = options.distribute_cpus_across_cores};
  return TakePacked(machine, rules, free, cpus);
}

}  // namespace alignd::cpumanager
