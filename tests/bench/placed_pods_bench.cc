// One decision on an empty node, and on a node with 250 pods.
#include <benchmark/benchmark.h>

#include "alignd/admission/admission.h"
#include "alignd/checkpoint/cpu_checkpoint.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "bench/workload.h"

namespace alignd::bench {
namespace {

constexpr int kManyPods = 250;

Workload NodeWithPods(const benchmark::State& state) {
  Workload workload = MakeWorkload(
      {.machine = "socket:2 numa:4 core:32 thread:2 memory-gib=128", .devices_per_node = 32});
  PlacePods(workload, static_cast<int>(state.range(0)));
  return workload;
}

void AdmitBesidePods(benchmark::State& state) {
  const Workload workload = NodeWithPods(state);
  for (auto _ : state) benchmark::DoNotOptimize(AdmitOrDie(workload));
}
BENCHMARK(AdmitBesidePods)->ArgName("pods")->Arg(0)->Arg(kManyPods);

void CopyState(benchmark::State& state) {
  const Workload workload = NodeWithPods(state);
  for (auto _ : state) {
    admission::NodeState copy = workload.state;
    benchmark::DoNotOptimize(copy);
  }
}
BENCHMARK(CopyState)->ArgName("pods")->Arg(0)->Arg(kManyPods);

void CompareStates(benchmark::State& state) {
  const Workload workload = NodeWithPods(state);
  const admission::NodeState copy = workload.state;
  for (auto _ : state) benchmark::DoNotOptimize(copy == workload.state);
}
BENCHMARK(CompareStates)->ArgName("pods")->Arg(0)->Arg(kManyPods);

void CheckInvariants(benchmark::State& state) {
  const Workload workload = NodeWithPods(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(workload.state.BrokenInvariants(workload.node));
  }
}
BENCHMARK(CheckInvariants)->ArgName("pods")->Arg(0)->Arg(kManyPods);

void FormatCheckpoints(benchmark::State& state) {
  const Workload workload = NodeWithPods(state);
  for (auto _ : state) {
    benchmark::DoNotOptimize(checkpoint::FormatCpuCheckpoint("static", workload.state.cpu,
                                                             checkpoint::StateForm::kData));
    benchmark::DoNotOptimize(checkpoint::FormatMemoryCheckpoint("Static", workload.state.memory,
                                                                checkpoint::StateForm::kData));
    benchmark::DoNotOptimize(checkpoint::FormatDeviceCheckpoint(workload.state.devices));
  }
}
BENCHMARK(FormatCheckpoints)->ArgName("pods")->Arg(0)->Arg(kManyPods);

}  // namespace
}  // namespace alignd::bench
