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

int64_t ScoreFor(ScoreStrategy strategy, const PlannedNode& node, const Pod& pod) {
  PlannedPod planned;
  planned.pod = pod;
  return Score(strategy, node, pod, node.Ask(planned));
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

// Four NUMA nodes beside a reserved one: one is used, one is asked for.
TEST(Score, OfKoordinatorIsTheShareWithThePod) {
  PlannedNode node = KoordinatorNode("socket:1 numa:5 core:2", "0-1", TopologyManagerPolicy::kNone);
  PlannedPod used;
  used.pod = AppPod("used", {{"cpu", "2"}, {"memory", "1Gi"}});
  ASSERT_EQ(node.Place(used).outcome, Outcome::kFits);
  const Pod pod = AppPod("p", {{"cpu", "2"}, {"memory", "1Gi"}});
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, pod), 50);
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, node, pod), 50);
  Pod shared = pod;
  shared.containers[0].resources.limits.clear();
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, shared), 0);
}

TEST(Score, OfKoordinatorIsThatOfTheAssignedNumaNodes) {
  PlannedNode node = KoordinatorNode("socket:1 numa:2 core:52 memory-gib=128", "0",
                                     TopologyManagerPolicy::kSingleNumaNode);
  // CPUs 21 of 51, memory 40 of 128: (41 + 31) / 2.
  const Pod pod = AppPod("p", {{"cpu", "21"}, {"memory", "40Gi"}});
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorMostAllocated, node, pod), 36);
  // 30 of 51, 88 of 128: (58 + 68) / 2.
  EXPECT_EQ(ScoreFor(ScoreStrategy::kByKoordinatorLeastAllocated, node, pod), 63);
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
