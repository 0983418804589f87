// A machine whose NUMA node ids have gaps: a Grace Hopper node has 0 and 8 with CPUs, and 250 to
// 255 in its GPUs' memory. Internally, nodes are positions; state files, reports and refusals
// have ids.
#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/explanation.h"
#include "alignd/checkpoint/device_checkpoint.h"
#include "alignd/checkpoint/memory_checkpoint.h"
#include "alignd/scenario/report.h"
#include "alignd/scenario/scenario.h"
#include "core/device_states.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

using devicemanager::NoPreference;
using topologymanager::NumaInfo;

const std::vector<int> kIds = {0, 8, 250, 251, 252, 253, 254, 255};

// 40 from one CPU node to the other, 80 to and between the others; but 254 is near to 255.
std::vector<std::vector<int>> Distances() {
  std::vector<std::vector<int>> rows(8, std::vector<int>(8, 80));
  for (size_t node = 0; node < 8; ++node) rows[node][node] = 10;
  rows[0][1] = rows[1][0] = 40;
  rows[6][7] = rows[7][6] = 12;
  return rows;
}

Machine GraceHopper() {
  const Machine plain = MakeMachine("socket:2 numa:1 core:4 cpuless=6 memory-gib=16");
  return WithDistances(WithNumaIds(plain, kIds), Distances());
}

KubeletConfig Config(TopologyManagerPolicy policy) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = "0";
  config.memory_manager_policy = MemoryManagerPolicy::kStatic;
  config.eviction_hard_memory = "";
  config.system_reserved = Amounts({{"memory", "1Gi"}});
  config.reserved_memory = {{.numa_node = 8, .limits = Amounts({{"memory", "1Gi"}})}};
  config.topology_manager_policy = policy;
  config.topology_manager_policy_options["prefer-closest-numa-nodes"] = "true";
  return config;
}

Node MakeNode(TopologyManagerPolicy policy) {
  Result<Node> node = Node::Make(GraceHopper(), Config(policy));
  EXPECT_TRUE(node.ok()) << node.error().message;
  return *std::move(node);
}

devicemanager::Device On(int numa) {
  devicemanager::Device device;
  device.healthy = true;
  device.numa = {numa};
  return device;
}

// A GPU on each node with CPUs.
NodeState WithDevices(const Node& node) {
  NodeState state = NodeState::Initial(node);
  devicemanager::Resource& gpus = state.devices.resources["nvidia.com/gpu"];
  gpus.registered = true;
  gpus.devices = {{"gpu-0", On(0)}, {"gpu-1", On(8)}};
  return state;
}

TEST(NumaIds, CpusMemoryAndDevicesOfNodeEight) {
  const Node node = MakeNode(TopologyManagerPolicy::kSingleNumaNode);
  // Node 0 has three free CPUs, so four need node 8.
  const Admission admission =
      Admit(node, WithDevices(node),
            AppPod("p", {{"cpu", "4"}, {"memory", "2Gi"}, {"nvidia.com/gpu", "1"}}), NoPreference);
  ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
  ASSERT_TRUE(admission.decisions[0].affinity);
  EXPECT_EQ(admission.decisions[0].affinity->affinity, NumaMask::Of(1)) << "a position";
  const Assignment& assigned = admission.assignments.at("app");
  EXPECT_EQ(assigned.exclusive.ToString(), "4-7");
  EXPECT_EQ(assigned.memory_nodes, std::vector<int>{8});
  EXPECT_EQ(assigned.devices.at("nvidia.com/gpu").Ids(), std::set<std::string>{"gpu-1"});

  const std::string memory = checkpoint::FormatMemoryCheckpoint("Static", admission.next.memory,
                                                                checkpoint::StateForm::kPlain);
  EXPECT_NE(memory.find(R"("numaAffinity":[8])"), std::string::npos) << memory;
  EXPECT_NE(memory.find(R"("255":{)"), std::string::npos) << memory;
  const auto read = checkpoint::ParseMemoryCheckpoint(memory);
  ASSERT_TRUE(read.ok()) << read.error().message;
  EXPECT_EQ(read->state, admission.next.memory);
  const std::string devices = checkpoint::FormatDeviceCheckpoint(admission.next.devices);
  EXPECT_NE(devices.find(R"("8":["gpu-1"])"), std::string::npos) << devices;
}

TEST(NumaIds, TheNodesThatAreClosestByTheirOwnRows) {
  const Node node = MakeNode(TopologyManagerPolicy::kBestEffort);
  // Two nodes are enough for 20 GiB; 254 and 255 lie closest, and they are the last positions.
  const Pod pod = GuaranteedPod("p", {App("app", {{"cpu", "500m"}, {"memory", "20Gi"}})});
  const Admission admission = Admit(node, NodeState::Initial(node), pod, NoPreference);
  ASSERT_TRUE(admission.admitted()) << admission.refusal->message;
  EXPECT_EQ(admission.assignments.at("app").memory_nodes, (std::vector<int>{254, 255}));
}

TEST(NumaIds, ARefusalAndAReportNameIds) {
  const Node node = MakeNode(TopologyManagerPolicy::kSingleNumaNode);
  const NodeState state = WithDevices(node);
  const Pod pod = AppPod("p", {{"cpu", "5"}, {"memory", "1Gi"}, {"nvidia.com/gpu", "1"}});
  const Admission admission = Admit(node, state, pod, NoPreference);
  ASSERT_FALSE(admission.admitted());
  const std::string text = Explain(node, state, pod, *admission.refusal).message;
  EXPECT_NE(text.find("NUMA node 8: 4 of 4 CPUs (4-7)"), std::string::npos) << text;
  EXPECT_NE(text.find("NUMA node 255: "), std::string::npos) << text;
  EXPECT_EQ(text.find("NUMA node 1:"), std::string::npos) << text;

  scenario::Scenario scenario{.name = "gaps",
                              .node = {.machine = GraceHopper(), .devices = {}, .preferred = {}},
                              .config = Config(TopologyManagerPolicy::kBestEffort),
                              .files = {},
                              .steps = {}};
  scenario.node.devices["nvidia.com/gpu"] = {{"gpu-0", On(0)}, {"gpu-1", On(8)}};
  scenario.steps.push_back(
      scenario::AdmitPod{AppPod("p", {{"cpu", "4"}, {"memory", "2Gi"}, {"nvidia.com/gpu", "1"}})});
  const std::vector<std::string> results = scenario::RunToJson(scenario);
  ASSERT_EQ(results.size(), 1U);
  EXPECT_NE(results[0].find("[8]"), std::string::npos) << results[0];
  EXPECT_NE(results[0].find("255"), std::string::npos) << results[0];
}

// Firmware may omit entries: a missing entry of a row is never read, for any id.
TEST(NumaIds, DistancesAreNotReadPastARow) {
  std::vector<std::vector<int>> rows = Distances();
  for (std::vector<int>& row : rows) row.resize(3);
  const Machine machine = WithDistances(GraceHopper(), rows);
  const NumaInfo numa(machine);
  EXPECT_EQ(numa.Distance(0, 0), 10) << "id 0 is in a row of three";
  for (int from = 0; from < 8; ++from) {
    for (int to = 1; to < 8; ++to) {
      EXPECT_GT(numa.Distance(from, to), 200) << "ids 8 and 250 to 255 are not";
    }
  }
  Result<Node> node = Node::Make(machine, Config(TopologyManagerPolicy::kBestEffort));
  ASSERT_TRUE(node.ok()) << node.error().message;
  const Pod pod = GuaranteedPod("p", {App("app", {{"cpu", "500m"}, {"memory", "20Gi"}})});
  const Admission admission = Admit(*node, NodeState::Initial(*node), pod, NoPreference);
  ASSERT_TRUE(admission.admitted());
  EXPECT_EQ(admission.assignments.at("app").memory_nodes.size(), 2U);
}

}  // namespace
}  // namespace alignd::admission
