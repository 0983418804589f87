// Scores are those of the plugins: the figures of their own tests come out.
#include "alignd/placement/score.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

// Two NUMA nodes with so many CPUs and so much memory each, nothing of it reserved.
PlannedNode ScoredNode(const std::string& cpus, uint64_t mebibytes, TopologyManagerPolicy policy,
                       TopologyManagerScope scope = TopologyManagerScope::kContainer) {
  const Machine shape = MakeMachine("socket:1 numa:2 core:" + cpus);
  std::vector<NumaNode> numa = shape.numa();
  for (NumaNode& node : numa) node.memory_bytes = mebibytes << 20;
  KubeletConfig config;
  config.eviction_hard_memory = "";
  config.topology_manager_policy = policy;
  config.topology_manager_scope = scope;
  NodeInput input{{*Machine::Make(shape.cpu_rows(), std::move(numa)), {}, {}}, {}, {}, {}, {}};
  Result<PlannedNode> node = PlannedNode::Make(std::move(input), config, 110, {});
  EXPECT_TRUE(node.ok()) << node.error().Text();
  return *std::move(node);
}

int64_t ScoreFor(ScoreStrategy strategy, const PlannedNode& node, const Pod& pod,
                 ResourceList overhead = {}) {
  PlannedPod planned;
  planned.pod = pod;
  planned.overhead = std::move(overhead);
  return Score(strategy, node, planned, node.Ask(planned));
}

// Source: scheduler-plugins pkg/noderesourcetopology/score_test.go, TestNodeResourceScorePlugin and
// TestNodeResourcePartialDataScorePlugin.
TEST(Score, IsThatOfThePluginsTests) {
  const auto policy = TopologyManagerPolicy::kSingleNumaNode;
  const PlannedNode first = ScoredNode("4", 500, policy);
  const PlannedNode second = ScoredNode("2", 50, policy);
  const PlannedNode third = ScoredNode("6", 60, policy);
  const Pod pod = AppPod("p", {{"cpu", "2"}, {"memory", "20Mi"}});
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByMostAllocated, first, pod), 27);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByMostAllocated, second, pod), 70);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByBalancedAllocation, third, pod), 100);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByBalancedAllocation, first, pod), 89);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByLeastAllocated, first, pod), 73);
}

// Source: as above, TestNodeResourceScorePluginLeastNUMA.
TEST(Score, CountsNumaNodesAsThePluginsTests) {
  struct Case {
    std::vector<std::string> cpus;  // of each container, with 50 MiB
    TopologyManagerScope scope = TopologyManagerScope::kContainer;
    std::vector<int64_t> scores;
  };
  const auto container = TopologyManagerScope::kContainer;
  const auto pod_scope = TopologyManagerScope::kPod;
  for (const Case& c : std::vector<Case>{{{"2"}, container, {94, 94, 94}},
                                         {{"4"}, container, {94, 82, 94}},
                                         {{"6"}, container, {82, 0, 94}},
                                         {{"2", "2"}, container, {94, 94, 94}},
                                         {{"1", "3"}, container, {94, 82, 94}},
                                         {{"5", "3"}, container, {82, 0, 94}},
                                         {{"2", "2"}, pod_scope, {94, 82, 82}},
                                         {{"1", "3"}, pod_scope, {94, 82, 82}},
                                         {{"5", "3"}, pod_scope, {82, 0, 82}}}) {
    std::vector<Container> containers;
    for (const std::string& cpus : c.cpus) {
      containers.push_back(
          App("c" + std::to_string(containers.size()), {{"cpu", cpus}, {"memory", "50Mi"}}));
    }
    const Pod pod = MakePod("p", containers);
    const auto policy = TopologyManagerPolicy::kBestEffort;
    const std::vector<int64_t> scores = {
        ScoreFor(ScoreStrategy::kByLeastNumaNodes, ScoredNode("4", 500, policy, c.scope), pod),
        ScoreFor(ScoreStrategy::kByLeastNumaNodes, ScoredNode("2", 50, policy, c.scope), pod),
        ScoreFor(ScoreStrategy::kByLeastNumaNodes, ScoredNode("6", 60, policy, c.scope), pod)};
    EXPECT_EQ(scores, c.scores) << c.cpus.front() << " " << ToString(c.scope);
  }
}

// The pod with its overhead: 4 of 8 CPUs, 40 of 500 MiB. Source: scheduler-plugins
// pkg/util/resource.go, GetPodEffectiveRequest.
TEST(Score, CountsTheOverheadOfAPodAsAWhole) {
  const auto policy = TopologyManagerPolicy::kSingleNumaNode;
  const Pod pod = AppPod("p", {{"cpu", "2"}, {"memory", "20Mi"}});
  const ResourceList overhead = {{"cpu", Quantity(2)}, {"memory", *Quantity::Parse("20Mi")}};
  const PlannedNode whole = ScoredNode("8", 500, policy, TopologyManagerScope::kPod);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByMostAllocated, whole, pod, overhead), (50 + 8) / 2);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByMostAllocated, whole, pod), (25 + 4) / 2);
  const PlannedNode by_container = ScoredNode("8", 500, policy);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByMostAllocated, by_container, pod, overhead), (25 + 4) / 2);
  const PlannedNode small = ScoredNode("2", 500, policy, TopologyManagerScope::kPod);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByLeastNumaNodes, small, pod, overhead), 82);
}

// What remains of a CPU is not rounded. Source: scheduler-plugins
// pkg/noderesourcetopology/numaresources.go, subtractFromNUMAs.
TEST(Score, TakesFractionsOfCpusFromNumaNodes) {
  std::vector<Container> containers;
  for (int i = 0; i < 4; ++i) {
    containers.push_back(App("c" + std::to_string(i), {{"cpu", "500m"}, {"memory", "1Mi"}}));
  }
  const PlannedNode node = ScoredNode("2", 500, TopologyManagerPolicy::kBestEffort);
  const Pod pod = MakePod("p", containers);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByLeastNumaNodes, node, pod), 94);
}

// A topology object of a node with more than 8 NUMA nodes has their number. Source:
// scheduler-plugins pkg/noderesourcetopology/nodeconfig/topologymanager.go; least_numa.go,
// normalizeScore.
TEST(Score, CountsMoreThanEightNumaNodes) {
  const auto score = [](const std::string& machine, const std::string& cpus) {
    KubeletConfig config;
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    NodeInput input{{MakeMachine(machine), {}, {}}, {}, {}, {}, {}};
    const Result<PlannedNode> node = PlannedNode::Make(std::move(input), config, 110, {});
    EXPECT_TRUE(node.ok());
    return ScoreFor(ScoreStrategy::kByLeastNumaNodes, *node,
                    AppPod("p", {{"cpu", cpus}, {"memory", "1Mi"}}));
  };
  EXPECT_EQ(score("socket:1 numa:10 core:2", "2"), 100 - 10 + 5);
  EXPECT_EQ(score("socket:1 numa:10 core:2", "5"), 100 - 30 + 5);
  EXPECT_EQ(score("socket:1 numa:10 core:2", "20"), 0 + 5);
  EXPECT_EQ(score("socket:1 numa:16 core:2", "32"), 100 - 16 * 6 + 3);
  // Sizes that cannot fit are not compared; of 32 of 64 NUMA nodes there are too many sets.
  EXPECT_EQ(score("socket:1 numa:64 core:1", "64"), 100 - 64 + 0);
  EXPECT_EQ(score("socket:1 numa:64 core:1", "32"), 0);
}

TEST(Score, PrefersCloseNumaNodes) {
  const Machine machine =
      WithDistances(MakeMachine("socket:1 numa:4 core:2"),
                    {{10, 12, 20, 20}, {12, 10, 20, 20}, {20, 20, 10, 12}, {20, 20, 12, 10}});
  KubeletConfig config;
  config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
  NodeInput close{{machine, {}, {}}, {}, {}, {}, {}};
  NodeInput apart = close;
  close.description.devices["a.com/d"] = {{"a", {true, {0}}}, {"b", {true, {1}}}};
  apart.description.devices["a.com/d"] = {{"a", {true, {0}}}, {"b", {true, {2}}}};
  const Pod pod = AppPod("p", {{"cpu", "2"}, {"memory", "1Gi"}, {"a.com/d", "2"}});
  EXPECT_EQ(
      ScoreFor(ScoreStrategy::kByLeastNumaNodes, *PlannedNode::Make(close, config, 9, {}), pod),
      82);
  EXPECT_EQ(
      ScoreFor(ScoreStrategy::kByLeastNumaNodes, *PlannedNode::Make(apart, config, 9, {}), pod),
      76);
}

TEST(Score, IsTheSameOnAllNodesWhereThePluginDoesNotLook) {
  Pod shared = AppPod("p", {{"cpu", "2"}, {"memory", "20Mi"}});
  shared.containers[0].resources.limits.clear();
  const PlannedNode single = ScoredNode("4", 500, TopologyManagerPolicy::kSingleNumaNode);
  const PlannedNode restricted = ScoredNode("4", 500, TopologyManagerPolicy::kRestricted);
  for (const ScoreStrategy strategy :
       {ScoreStrategy::kByLeastAllocated, ScoreStrategy::kByMostAllocated,
        ScoreStrategy::kByBalancedAllocation}) {
    EXPECT_EQ(ScoreFor(strategy, single, shared), 100);
    EXPECT_EQ(ScoreFor(strategy, restricted, AppPod("p", {{"cpu", "2"}, {"memory", "1Mi"}})), 0);
  }
}

PlannedNode KoordinatorNode(const std::string& machine, const std::string& reserved,
                            TopologyManagerPolicy policy) {
  KubeletConfig config;
  config.cpu_manager_policy = CpuManagerPolicy::kStatic;
  config.reserved_system_cpus = reserved;
  config.topology_manager_policy = policy;
  NodeInput input{{MakeMachine(machine), {}, {}}, {}, {}, {}, {}};
  return *PlannedNode::Make(std::move(input), config, 110, {});
}

// Four NUMA nodes beside a reserved one: one is used, one is asked for. As of kube-scheduler's
// MostAllocated, pods of the shared pool count as well.
TEST(Score, OfKoordinatorIsTheShareOfTheNodeWithThePod) {
  PlannedNode node = KoordinatorNode("socket:1 numa:5 core:2", "0-1", TopologyManagerPolicy::kNone);
  const Quantity memory = node.allocatable().amounts.at("memory");
  const std::string quarter = std::to_string(memory.Value() / 4);
  Pod used = AppPod("used", {{"cpu", "2"}, {"memory", quarter}});
  const Pod pod = AppPod("p", {{"cpu", "2"}, {"memory", quarter}});
  PlannedNode shared_node = node;
  PlannedPod planned;
  planned.pod = used;
  ASSERT_EQ(node.Place(planned).outcome, Outcome::kFits);
  planned.pod.containers[0].resources.limits.clear();
  ASSERT_EQ(shared_node.Place(planned).outcome, Outcome::kFits);
  Pod shared = pod;
  shared.containers[0].resources.limits.clear();
  for (const PlannedNode& with_used : {node, shared_node}) {
    for (const Pod& asked : {pod, shared}) {
      EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, with_used, asked), 50);
      EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, with_used, asked), 50);
    }
  }
  // 4 of 8 CPUs and 3/4 of the memory; the overhead is requested too.
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, pod,
                     {{"memory", *Quantity::Parse(quarter)}}),
            62);
  Pod nothing = pod;
  nothing.containers[0].resources = {};
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, node, nothing), 0);
}

// Source: koordinator pkg/scheduler/plugins/nodenumaresource/scoring_test.go, TestNUMANodeScore,
// "... different requested and LSR": the exclusive CPUs of all NUMA nodes count.
TEST(Score, OfKoordinatorCountsExclusiveCpusOfAllNumaNodes) {
  PlannedNode node = KoordinatorNode("socket:1 numa:2 core:53 memory-gib=128", "0",
                                     TopologyManagerPolicy::kSingleNumaNode);
  PlannedPod used;
  used.pod = AppPod("used", {{"cpu", "30"}, {"memory", "8Gi"}});
  ASSERT_EQ(node.Place(used).outcome, Outcome::kFits);
  // NUMA node 0 has 22 free CPUs. Of the 53 of NUMA node 1, 30 + 23 count; of its memory, 40 of
  // 128.
  Pod pod = AppPod("p", {{"cpu", "23"}, {"memory", "40Gi"}});
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, pod), (100 + 31) / 2);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, node, pod), (0 + 68) / 2);
  // 30 + 40 are more than there are: MostAllocated caps them, LeastAllocated scores 0.
  pod = AppPod("p", {{"cpu", "40"}, {"memory", "40Gi"}});
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, pod), (100 + 31) / 2);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, node, pod), (0 + 68) / 2);
}

TEST(Score, OfKoordinatorIsThatOfTheAssignedNumaNodes) {
  PlannedNode node = KoordinatorNode("socket:1 numa:2 core:52 memory-gib=128", "0",
                                     TopologyManagerPolicy::kSingleNumaNode);
  // CPUs 21 of 51, memory 40 of 128: (41 + 31) / 2.
  const Pod pod = AppPod("p", {{"cpu", "21"}, {"memory", "40Gi"}});
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, pod), 36);
  // 30 of 51, 88 of 128: (58 + 68) / 2.
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, node, pod), 63);
  // Nothing of a NUMA node is assigned: 21 of 103 CPUs, 40 of almost 256 GiB of memory.
  Pod shared = pod;
  shared.containers[0].resources.limits.clear();
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, shared), (20 + 15) / 2);
}

TEST(Score, HasANameForEachStrategy) {
  for (const ScoreStrategy strategy : AllScoreStrategies()) {
    EXPECT_EQ(ScoreStrategyOf(ToString(strategy)), strategy);
  }
  EXPECT_EQ(ScoreStrategyOf("Best"), std::nullopt);
  EXPECT_EQ(AllScoreStrategies().size(), 6U);
}

}  // namespace
}  // namespace alignd::placement
