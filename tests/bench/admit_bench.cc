// A whole admission (hints, merge, allocation) on an empty node: machines as they are built, and a
// grid of NUMA nodes and resources. For comparison, the exhaustive computation of the affinity
// (hints and merge, no allocation) if it ends within a minute.
#include <benchmark/benchmark.h>

#include "bench/exhaustive_admission.h"
#include "bench/workload.h"

namespace alignd::bench {
namespace {

using topologymanager::TopologyHint;

void MeasureAdmit(benchmark::State& state, const WorkloadSpec& spec) {
  const Workload workload = MakeWorkload(spec);
  TopologyHint affinity;
  for (auto _ : state) benchmark::DoNotOptimize(affinity = AdmitOrDie(workload));
  state.SetLabel(affinity.affinity ? affinity.affinity->ToString() : "any");
}

void MeasureExhaustive(benchmark::State& state, const WorkloadSpec& spec) {
  const Workload workload = MakeWorkload(spec);
  TopologyHint affinity;
  for (auto _ : state) benchmark::DoNotOptimize(affinity = AffinityByTryingAll(workload));
  state.SetLabel((affinity.affinity ? affinity.affinity->ToString() : "any") +
                 ", hints and merge only");
  if (affinity != AdmitOrDie(workload)) state.SkipWithError("the two ways do not agree");
}

WorkloadSpec Numa2Cpus128() {
  return {.machine = "socket:2 numa:1 core:32 thread:2 memory-gib=256", .numa_nodes = 2};
}

WorkloadSpec Numa8Cpus512() {
  return {.machine = "socket:2 numa:4 core:32 thread:2 memory-gib=128",
          .numa_nodes = 8,
          .resources = 5};
}

// Two processors of 72 cores. The memory of each of four GPUs is a NUMA node; 28 more nodes are
// reserved for GPU partitions and are empty.
WorkloadSpec Gb200() {
  return {.machine = "socket:2 numa:1 core:72 memory-gib=480 cpuless=32",
          .numa_nodes = 34,
          .memoryless_from = 6};
}

// The same machine with memory on all 34 nodes.
WorkloadSpec Gb200FullOfMemory() {
  return {.machine = "socket:2 numa:1 core:72 memory-gib=480 cpuless=32", .numa_nodes = 34};
}

WorkloadSpec Numa64Cpus1024() {
  return {.machine = "socket:8 numa:8 core:8 thread:2", .numa_nodes = 64, .resources = 4};
}

void Admit(benchmark::State& state, WorkloadSpec spec) {
  if (state.range(0) == 1) spec.policy = TopologyManagerPolicy::kRestricted;
  MeasureAdmit(state, spec);
}
#define ALIGND_BENCH_BOTH_POLICIES ArgName("restricted")->Arg(0)->Arg(1)
BENCHMARK_CAPTURE(Admit, numa2_cpus128_cpu_memory_gpu, Numa2Cpus128())->ALIGND_BENCH_BOTH_POLICIES;
BENCHMARK_CAPTURE(Admit, numa8_cpus512_cpu_memory_hugepages_gpu_nic, Numa8Cpus512())
    ->ALIGND_BENCH_BOTH_POLICIES;
BENCHMARK_CAPTURE(Admit, gb200_cpu_memory_gpu, Gb200())->ALIGND_BENCH_BOTH_POLICIES;
BENCHMARK_CAPTURE(Admit, gb200_memory_everywhere_cpu_memory_gpu, Gb200FullOfMemory())
    ->ALIGND_BENCH_BOTH_POLICIES;
BENCHMARK_CAPTURE(Admit, numa64_cpus1024_cpu_memory_gpu_nic, Numa64Cpus1024())
    ->ALIGND_BENCH_BOTH_POLICIES;
#undef ALIGND_BENCH_BOTH_POLICIES

void AdmitExhaustively(benchmark::State& state, const WorkloadSpec& spec) {
  MeasureExhaustive(state, spec);
}
BENCHMARK_CAPTURE(AdmitExhaustively, numa2_cpus128_cpu_memory_gpu, Numa2Cpus128());

// Equal NUMA nodes of 16 CPUs in two sockets.
WorkloadSpec GridSpec(const benchmark::State& state) {
  const auto nodes = static_cast<int>(state.range(0));
  return {.machine = "socket:2 numa:" + std::to_string(nodes / 2) + " core:8 thread:2",
          .resources = static_cast<int>(state.range(1)),
          .nodes_needed = static_cast<int>(std::min(state.range(0), state.range(2)))};
}

constexpr const char* kMaxNodesNeeded = "needed";

void AdmitGrid(benchmark::State& state) { MeasureAdmit(state, GridSpec(state)); }
BENCHMARK(AdmitGrid)
    ->ArgNames({"nodes", "resources", kMaxNodesNeeded})
    ->ArgsProduct({{2, 4, 8, 16, 32, 64}, {1, 2, 3, 4, 5}, {1, 3}});

// About 10^8 combinations take a second; the next step of the grid has 250 times as many.
void WithinAMinute(benchmark::internal::Benchmark* grid) {
  constexpr double kMaxCombinations = 1e9;
  grid->ArgNames({"nodes", "resources", kMaxNodesNeeded});
  for (const int nodes : {2, 4, 8, 16}) {
    for (const int resources : {1, 2, 3, 4, 5}) {
      if (Combinations(nodes, resources) <= kMaxCombinations) grid->Args({nodes, resources, 1});
    }
  }
}

void AdmitGridExhaustively(benchmark::State& state) { MeasureExhaustive(state, GridSpec(state)); }
BENCHMARK(AdmitGridExhaustively)->Apply(WithinAMinute);

}  // namespace
}  // namespace alignd::bench
