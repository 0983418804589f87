// The extender answers about one pod of kube-scheduler: parse, filter, and the answer's text. Each
// pod is let through, and the nodes are read again after each hundred.
#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "cli/parallel.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "extender/extender.h"
#include "extender/messages.h"

namespace alignd::bench {
namespace {

using extender::Extender;

// 8 NUMA nodes with 32 CPUs, each node with a pod of its own.
placement::FleetNode ExtenderNode(int number) {
  placement::FleetNode node;
  node.name = "node-" + std::to_string(number);
  node.input.description.machine = MakeMachine("socket:2 numa:4 core:16 thread:2 memory-gib=128");
  for (int device = 0; device < 16; ++device) {
    node.input.description.devices["nvidia.com/gpu"].emplace_back(
        "gpu-" + std::to_string(device), devicemanager::Device{true, {device / 2}});
  }
  node.config =
      R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0-1","memoryManagerPolicy":"Static",)"
      R"("systemReserved":{"memory":"900Mi"},"reservedMemory":[{"numaNode":0,"limits":)"
      R"({"memory":"1000Mi"}}],"topologyManagerPolicy":"single-numa-node"})";
  placement::PlannedPod running;
  running.pod = AppPod(node.name, {{"cpu", std::to_string(4 + number % 13)},
                                   {"memory", std::to_string(8 + number % 17) + "Gi"},
                                   {"nvidia.com/gpu", "1"}});
  node.running.push_back(std::move(running));
  return node;
}

std::string RequestText(int64_t number, int64_t memory, const std::string& names) {
  const std::string amounts =
      R"({"cpu":"4","memory":")" + std::to_string(memory) + R"(","nvidia.com/gpu":"1"})";
  const std::string name = "pod-" + std::to_string(number);
  return R"({"Pod":{"metadata":{"name":")" + name + R"(","namespace":"default","uid":")" + name +
         R"("},"spec":{"containers":[{"name":"app","image":"i","resources":{"limits":)" + amounts +
         R"(,"requests":)" + amounts + R"(}}]},"status":{}},"Nodes":null,"NodeNames":[)" + names +
         "]}";
}

void ExtenderFilter(benchmark::State& state) {
  const bool is_different = state.range(1) == 1;
  std::vector<placement::FleetNode> nodes;
  std::string names;
  for (int i = 0; i < state.range(0); ++i) {
    nodes.push_back(ExtenderNode(i));
    names += (i > 0 ? ",\"" : "\"") + nodes.back().name + "\"";
  }
  Extender extender({.keep_for = std::chrono::seconds(0), .for_each = cli::ForEachOnAllCpus});
  int64_t number = 0;
  for (auto _ : state) {
    if (number % 100 == 0) {
      state.PauseTiming();
      extender.SetNodes(nodes, Extender::Clock::now());
      state.ResumeTiming();
    }
    ++number;
    const std::string text =
        RequestText(number, (int64_t{16} << 30) + (is_different ? number : number % 5), names);
    const auto request = extender::ParseRequest(text);
    const auto filtered = extender.Filter(request->pod, request->names, Extender::Clock::now());
    if (!filtered.ok() || filtered->nodes.size() != 1) {
      std::fprintf(stderr, "ExtenderFilter: pod %lld fits nowhere\n",
                   static_cast<long long>(number));
      std::abort();
    }
    benchmark::DoNotOptimize(extender::FilterResult(*request, *filtered));
  }
  state.SetItemsProcessed(number);
}
BENCHMARK(ExtenderFilter)
    ->ArgNames({"nodes", "different"})
    ->ArgsProduct({{420, 1000}, {0, 1}})
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace alignd::bench
