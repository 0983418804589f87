// One pod asked of a fleet: which nodes can take it, and their scores. Each time a pod that differs
// from all before, so that no answer is known.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "alignd/placement/fleet.h"
#include "cli/parallel.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::bench {
namespace {

using placement::Fleet;
using placement::FleetNode;

// 8 NUMA nodes with 32 CPUs, 128 GiB and two devices each. A node that differs from all others has
// three pods of its own.
FleetNode BenchNode(int number, bool is_different) {
  FleetNode node;
  node.name = "node-" + std::to_string(number);
  const Machine machine = MakeMachine("socket:2 numa:4 core:16 thread:2 memory-gib=128");
  node.input = {{machine, {}, {}}, std::nullopt, {}, {}, {}};
  for (int device = 0; device < 16; ++device) {
    node.input.description.devices["nvidia.com/gpu"].emplace_back(
        "gpu-" + std::to_string(device), devicemanager::Device{true, {device / 2}});
  }
  node.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0-1","memoryManagerPolicy":"Static",)"
      R"("systemReserved":{"memory":"900Mi"},"reservedMemory":[{"numaNode":0,"limits":)"
      R"({"memory":"1000Mi"}}],"topologyManagerPolicy":"single-numa-node"})";
  for (int pod = 0; is_different && pod < 3; ++pod) {
    placement::PlannedPod running;
    running.pod = AppPod(node.name + "-" + std::to_string(pod),
                         {{"cpu", std::to_string(4 + (number + pod) % 13)},
                          {"memory", std::to_string(8 + number % 17) + "Gi"},
                          {"nvidia.com/gpu", std::to_string(pod % 2)}});
    node.running.push_back(std::move(running));
  }
  return node;
}

Fleet BenchFleet(int nodes, bool is_different) {
  std::vector<FleetNode> all;
  for (int i = 0; i < nodes; ++i) all.push_back(BenchNode(i, is_different));
  Result<Fleet> fleet =
      Fleet::Make(all, placement::ScoreStrategy::kByLeastAllocated, cli::ForEachOnAllCpus);
  if (!fleet.ok()) {
    std::fprintf(stderr, "%s\n", fleet.error().Text().c_str());
    std::abort();
  }
  return *std::move(fleet);
}

void FitOnePod(benchmark::State& state) {
  Fleet fleet = BenchFleet(static_cast<int>(state.range(0)), state.range(1) == 1);
  int64_t number = 0;
  size_t fitting = 0;
  for (auto _ : state) {
    placement::PlannedPod pod;
    pod.pod = AppPod("pod", {{"cpu", "20"},
                             {"memory", std::to_string((int64_t{16} << 30) + ++number)},
                             {"nvidia.com/gpu", "2"}});
    benchmark::DoNotOptimize(fitting = fleet.FittingNodes(pod).size());
  }
  state.SetLabel(std::to_string(fitting) + " nodes can take it");
}
BENCHMARK(FitOnePod)
    ->ArgNames({"nodes", "different"})
    ->ArgsProduct({{1000, 10000}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace alignd::bench
