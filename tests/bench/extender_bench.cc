// kube-scheduler's calls about one pod over HTTP, /filter and /prioritize, and then the Pod as the
// API server shows it, bound to the node: its node is made anew of its objects.
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "alignd/noderesourcetopology/object.h"
#include "cli/parallel.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"
#include "edge/http_client.h"
#include "extender/cluster_view.h"
#include "extender/extender.h"
#include "extender/extender_server.h"

namespace alignd::bench {
namespace {

using extender::ClusterView;
using extender::Extender;
using extender::ObjectKind;

// 8 NUMA nodes with 32 CPUs and 2 GPUs each; a pod of its own runs on each node.
placement::PlannedNode ExtenderNode(int number) {
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
  running.pod = AppPod("running-" + node.name, {{"cpu", std::to_string(4 + number % 13)},
                                                {"memory", std::to_string(8 + number % 17) + "Gi"},
                                                {"nvidia.com/gpu", "1"}});
  node.running.push_back(std::move(running));
  auto made = placement::MakePlannedNode(node);
  if (!made.ok()) std::abort();
  return *std::move(made);
}

std::string PodText(const std::string& name, const std::string& cpus, const std::string& memory,
                    const std::string& node, const std::string& phase, int gpus = 1) {
  const std::string amounts = R"({"cpu":")" + cpus + R"(","memory":")" + memory +
                              R"(","nvidia.com/gpu":")" + std::to_string(gpus) + R"("})";
  return R"({"kind":"Pod","apiVersion":"v1","metadata":{"name":")" + name +
         R"(","namespace":"default","uid":")" + name + R"("},"spec":{)" +
         (node.empty() ? "" : R"("nodeName":")" + node + R"(",)") +
         R"("containers":[{"name":"app","image":"i","resources":{"limits":)" + amounts +
         R"(,"requests":)" + amounts + R"(}}]},"status":{"phase":")" + phase + R"("}})";
}

void SetNode(int number, ClusterView& view) {
  const placement::PlannedNode node = ExtenderNode(number);
  const std::string name = "node-" + std::to_string(number);
  std::string allocatable = R"("pods":"110")";
  for (const auto& [resource, amount] : node.allocatable().amounts) {
    allocatable += ",\"" + resource + "\":\"" + amount.ToString() + "\"";
  }
  view.Set(ObjectKind::kNode, name,
           R"({"kind":"Node","apiVersion":"v1","metadata":{"name":")" + name +
               R"("},"status":{"capacity":{"cpu":"256"},"allocatable":{)" + allocatable + "}}}");
  view.Set(ObjectKind::kTopology, name,
           noderesourcetopology::ObjectJson(
               name, node.node(), node.state(),
               std::vector<noderesourcetopology::PodIdentity>{{"default", "running-" + name}}));
  view.Set(ObjectKind::kPod, "default/running-" + name,
           PodText("running-" + name, std::to_string(4 + number % 13),
                   std::to_string(8 + number % 17) + "Gi", name, "Running"));
}

void GiveChanges(ClusterView& view, Extender& extender) {
  const std::vector<ClusterView::Parts> parts = view.TakeChanged();
  std::vector<Extender::NodeChange> changes(parts.size());
  cli::ForEachOnAllCpus(parts.size(),
                        [&](size_t i) { changes[i] = ClusterView::ChangeOf(parts[i], ""); });
  extender.ChangeNodes(changes);
}

std::string Posted(uint16_t port, const std::string& path, const std::string& body) {
  const host::Descriptor connection = testing::ConnectTcp(port);
  testing::SendText(connection, "POST " + path +
                                    " HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                    "Content-Type: application/json\r\nContent-Length: " +
                                    std::to_string(body.size()) + "\r\n\r\n" + body);
  return testing::ReadReply(connection).body;
}

// The name of the node in the answer of /filter.
std::string NodeIn(const std::string& answer) {
  const std::string before = R"("NodeNames":[")";
  const size_t at = answer.find(before);
  if (at == std::string::npos) {
    std::fprintf(stderr, "ExtenderPods: %.300s\n", answer.c_str());
    std::abort();
  }
  const size_t begin = at + before.size();
  return answer.substr(begin, answer.find('"', begin) - begin);
}

// The names of the nodes, as in a request.
std::string SetNodes(int64_t count, ClusterView& view) {
  std::string names;
  for (int i = 0; i < count; ++i) {
    SetNode(i, view);
    names += (i > 0 ? ",\"node-" : "\"node-") + std::to_string(i) + "\"";
  }
  return names;
}

// Each pod differs from all others, and requests more GPUs than a NUMA node has: all nodes are
// asked, and the kubelet of each would refuse it. Only /filter is called.
void ExtenderRefusedPods(benchmark::State& state) {
  ClusterView view;
  const std::string names = SetNodes(state.range(0), view);
  Extender extender({.for_each = cli::ForEachOnAllCpus});
  GiveChanges(view, extender);
  const auto server = extender::ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender);
  if (!server.ok()) std::abort();
  int64_t number = 0;
  for (auto _ : state) {
    const std::string pod =
        PodText("pod-" + std::to_string(number), "4", std::to_string((int64_t{16} << 30) + number),
                "", "Pending", /*gpus=*/3);
    const std::string answer =
        Posted((*server)->port(), "/filter",
               R"({"Pod":)" + pod + R"(,"Nodes":null,"NodeNames":[)" + names + "]}");
    if (answer.find("TopologyAffinityError") == std::string::npos) std::abort();
    ++number;
  }
  state.SetItemsProcessed(number);
}

void ExtenderPods(benchmark::State& state) {
  const bool is_different = state.range(1) == 1;
  ClusterView view;
  const std::string names = SetNodes(state.range(0), view);
  Extender extender({.for_each = cli::ForEachOnAllCpus});
  GiveChanges(view, extender);
  const auto server = extender::ExtenderServer::Start({.ip = "127.0.0.1"}, {}, extender);
  if (!server.ok()) std::abort();
  const uint16_t port = (*server)->port();
  int64_t number = 0;
  std::vector<std::string> bound;
  for (auto _ : state) {
    const std::string name = "pod-" + std::to_string(number);
    const std::string memory =
        std::to_string((int64_t{16} << 30) + (is_different ? number : number % 5));
    const std::string pod = PodText(name, "4", memory, "", "Pending");
    const std::string node = NodeIn(Posted(
        port, "/filter", R"({"Pod":)" + pod + R"(,"Nodes":null,"NodeNames":[)" + names + "]}"));
    benchmark::DoNotOptimize(
        Posted(port, "/prioritize",
               R"({"Pod":)" + pod + R"(,"Nodes":null,"NodeNames":[")" + node + R"("]})"));
    view.Set(ObjectKind::kPod, "default/" + name, PodText(name, "4", memory, node, "Pending"));
    GiveChanges(view, extender);
    bound.push_back("default/" + name);
    ++number;
    if (bound.size() < 2000) continue;
    state.PauseTiming();
    for (const std::string& key : bound) view.Remove(ObjectKind::kPod, key);
    bound.clear();
    GiveChanges(view, extender);
    state.ResumeTiming();
  }
  state.SetItemsProcessed(number);
}
BENCHMARK(ExtenderRefusedPods)
    ->ArgName("nodes")
    ->Arg(1000)
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);
BENCHMARK(ExtenderPods)
    ->ArgNames({"nodes", "different"})
    ->ArgsProduct({{1000}, {0, 1}})
    ->MeasureProcessCPUTime()
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace alignd::bench
