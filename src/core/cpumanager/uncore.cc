#include "core/cpumanager/uncore.h"

namespace alignd::cpumanager {
namespace {

// The free CPUs of the `count` lowest-numbered cores that have a free CPU on this cache (of all
// such cores if there are fewer).
CpuSet FreeCpusOfLowestCores(const CpuAccumulator& packing, const CpuGroup& cache, int count) {
  const CpuSet free_here = cache.cpus & packing.free();
  CpuSet cpus;
  for (const CpuGroup& core : packing.machine().cores()) {
    if (count == 0) break;
    if (!core.cpus.Intersects(free_here)) continue;
    cpus |= core.cpus & packing.free();
    --count;
  }
  return cpus;
}

// Takes all needed CPUs from this cache, or none. Considers only as many cores as a free cache
// would need, so partly used cores can make the cache unsuitable.
void TakeRestFrom(CpuAccumulator& packing, const CpuGroup& cache) {
  const int per_core = packing.machine().cpus_per_core();
  const int cores = (packing.needed() + per_core - 1) / per_core;
  CpuSet cpus = FreeCpusOfLowestCores(packing, cache, cores);
  const bool half_a_core = packing.needed() % 2 != 0 && per_core > 1;
  if (half_a_core && cpus.Count() > packing.needed()) cpus = cpus.Lowest(cpus.Count() - 1);
  if (cpus.Count() == packing.needed()) packing.Take(cpus);
}

}  // namespace

void TakeUncoreCaches(CpuAccumulator& packing) {
  const CpuAccumulator::Groups caches = packing.UncoreCaches();
  for (const CpuGroup* cache : caches) {
    if (packing.needed() >= packing.machine().cpus_per_uncore()) {
      packing.TakeWholeUncoreCaches();
    }
    if (packing.satisfied()) return;
    TakeRestFrom(packing, *cache);
    if (packing.satisfied()) return;
  }
}

}  // namespace alignd::cpumanager
