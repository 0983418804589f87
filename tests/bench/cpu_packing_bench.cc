// The choice of CPUs on large machines, and their distribution over NUMA nodes.
#include <benchmark/benchmark.h>

#include <vector>

#include "alignd/cpumanager/cpu_packing.h"
#include "core/cpumanager/numa_spread.h"
#include "core/machine_builder.h"
#include "core/numa_spread_oracle.h"

namespace alignd::bench {
namespace {

using cpumanager::PolicyOptions;
using cpumanager::SpreadRequest;

// 64 NUMA nodes, 1024 CPUs; every third core has one free CPU.
void TakeOf1024Cpus(benchmark::State& state, const PolicyOptions& options) {
  const Machine machine = MakeMachine("socket:8 numa:8 uncore:2 core:4 thread:2");
  CpuSet free = machine.cpus();
  for (int cpu = 0; cpu < 1024; cpu += 6) free.Remove(cpu);
  const auto count = static_cast<int>(state.range(0));
  for (auto _ : state) {
    const Result<CpuSet> taken = cpumanager::TakeCpus(machine, options, free, count);
    if (!taken.ok()) state.SkipWithError(taken.error().message.c_str());
    benchmark::DoNotOptimize(taken);
  }
}
#define ALIGND_BENCH_COUNTS ArgName("count")->Arg(3)->Arg(100)->Arg(600)
BENCHMARK_CAPTURE(TakeOf1024Cpus, packed, PolicyOptions{})->ALIGND_BENCH_COUNTS;
BENCHMARK_CAPTURE(TakeOf1024Cpus, uncore_caches,
                  PolicyOptions{.prefer_align_cpus_by_uncorecache = true})
    ->ALIGND_BENCH_COUNTS;
BENCHMARK_CAPTURE(TakeOf1024Cpus, over_cores, PolicyOptions{.distribute_cpus_across_cores = true})
    ->ALIGND_BENCH_COUNTS;
BENCHMARK_CAPTURE(TakeOf1024Cpus, over_numa, PolicyOptions{.distribute_cpus_across_numa = true})
    ->ALIGND_BENCH_COUNTS;
#undef ALIGND_BENCH_COUNTS

// Nodes with up to 16 CPUs, unsorted; nearly all of them are needed.
std::vector<int> UnevenNodes(int64_t nodes) {
  std::vector<int> free_cpus;
  for (int64_t node = 0; node < nodes; ++node) {
    free_cpus.push_back(16 - static_cast<int>(node * 7 % 5));
  }
  return free_cpus;
}

SpreadRequest NearlyAll(const std::vector<int>& free_cpus) {
  const auto nodes = static_cast<int>(free_cpus.size());
  return {.count = nodes * 12 + nodes / 2, .group = 1, .fewest_nodes = 1, .most_nodes = nodes};
}

void SpreadOverNuma(benchmark::State& state) {
  const std::vector<int> free_cpus = UnevenNodes(state.range(0));
  const SpreadRequest request = NearlyAll(free_cpus);
  for (auto _ : state) {
    const auto spread = cpumanager::FindNumaSpread(free_cpus, request);
    if (!spread) state.SkipWithError("nothing was found");
    benchmark::DoNotOptimize(spread);
  }
}
BENCHMARK(SpreadOverNuma)->ArgName("nodes")->Arg(2)->Arg(4)->Arg(8)->Arg(16)->Arg(32)->Arg(64);

void SpreadOverNumaExhaustively(benchmark::State& state) {
  const std::vector<int> free_cpus = UnevenNodes(state.range(0));
  const SpreadRequest request = NearlyAll(free_cpus);
  for (auto _ : state) {
    const auto spread = cpumanager::FindNumaSpreadByTryingAll(free_cpus, request);
    if (spread != cpumanager::FindNumaSpread(free_cpus, request)) {
      state.SkipWithError("the two ways do not agree");
    }
  }
}
BENCHMARK(SpreadOverNumaExhaustively)->ArgName("nodes")->Arg(2)->Arg(4)->Arg(8)->Arg(16);

}  // namespace
}  // namespace alignd::bench
