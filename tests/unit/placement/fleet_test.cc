// Which nodes of a fleet can take a pod, and where it is placed.
#include "alignd/placement/fleet.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::placement {
namespace {

constexpr const char* kSingleNumaConfig =
    R"({"cpuManagerPolicy":"static","reservedSystemCPUs":"0",)"
    R"("topologyManagerPolicy":"single-numa-node"})";

FleetNode NodeOf(const std::string& name, const std::string& machine) {
  FleetNode node;
  node.name = name;
  node.input = {{MakeMachine(machine), {}, {}}, {}, {}, {}, {}};
  node.config = kSingleNumaConfig;
  return node;
}

PlannedPod Asking(const std::string& name, const std::string& cpus) {
  PlannedPod planned;
  planned.pod = AppPod(name, {{"cpu", cpus}, {"memory", "1Gi"}});
  return planned;
}

Fleet FleetOf(const std::vector<FleetNode>& nodes,
              ScoreStrategy strategy = ScoreStrategy::kByLeastAllocated) {
  Result<Fleet> fleet = Fleet::Make(nodes, strategy);
  EXPECT_TRUE(fleet.ok()) << fleet.error().Text();
  return *std::move(fleet);
}

// "w1:94 w2:82".
std::string FittingText(Fleet& fleet, const PlannedPod& pod) {
  std::string text;
  for (const Fleet::Fitting& fitting : fleet.FittingNodes(pod)) {
    text += (text.empty() ? "" : " ") + fleet.NameOf(fitting.node) + ":" +
            std::to_string(fitting.score);
  }
  return text;
}

// 20 CPUs on one NUMA node: a node of 2x10 has too few in all, one of 2x11 on each NUMA node; of
// 2x20, NUMA node 1 has them.
TEST(Fleet, FindsTheNodeWithTwentyCpusOnOneNumaNode) {
  Fleet fleet = FleetOf({NodeOf("small", "socket:2 numa:1 core:10"),
                         NodeOf("split", "socket:2 numa:1 core:11"),
                         NodeOf("large", "socket:2 numa:1 core:20")});
  const PlannedPod pod = Asking("p", "20");
  const std::vector<Fleet::Fitting> fitting = fleet.FittingNodes(pod);
  ASSERT_EQ(fitting.size(), 1U);
  EXPECT_EQ(fleet.NameOf(fitting[0].node), "large");
  const std::vector<AnswerGroup> others = fleet.OtherNodes(pod);
  ASSERT_EQ(others.size(), 2U);
  EXPECT_EQ(others[0].stage, Stage::kScheduler);
  EXPECT_EQ(others[0].cause, "Unschedulable: Insufficient cpu");
  EXPECT_EQ(others[0].nodes, std::vector<size_t>{0});
  EXPECT_EQ(others[1].stage, Stage::kKubelet);
  EXPECT_EQ(others[1].nodes, std::vector<size_t>{1});
  EXPECT_TRUE(others[1].cause.starts_with("TopologyAffinityError: "));
  EXPECT_EQ(fleet.Place(pod), 2U);
  EXPECT_EQ(fleet.Place(Asking("q", "20")), std::nullopt);
}

TEST(Fleet, OrdersNodesByScoreAndThenByPosition) {
  const std::vector<FleetNode> nodes = {NodeOf("a", "socket:2 numa:1 core:8"),
                                        NodeOf("b", "socket:2 numa:1 core:16"),
                                        NodeOf("c", "socket:2 numa:1 core:16")};
  Fleet least = FleetOf(nodes);
  EXPECT_TRUE(FittingText(least, Asking("p", "4")).starts_with("b:"));
  Fleet most = FleetOf(nodes, ScoreStrategy::kByMostAllocated);
  EXPECT_TRUE(FittingText(most, Asking("p", "4")).starts_with("a:"));
  EXPECT_EQ(least.FittingNodes(Asking("p", "4"))[1].node, 2U);
}

TEST(Fleet, AssumesPodsWhereTheyWerePlaced) {
  Fleet fleet =
      FleetOf({NodeOf("a", "socket:2 numa:1 core:8"), NodeOf("b", "socket:2 numa:1 core:8")});
  std::vector<size_t> nodes;
  for (int i = 0; i < 4; ++i) {
    const std::optional<size_t> node = fleet.Place(Asking("p" + std::to_string(i), "7"));
    ASSERT_TRUE(node.has_value());
    nodes.push_back(*node);
  }
  EXPECT_EQ(fleet.Place(Asking("p4", "7")), std::nullopt);
  std::ranges::sort(nodes);
  EXPECT_EQ(nodes, (std::vector<size_t>{0, 0, 1, 1}));
  EXPECT_EQ(fleet.StateOf(0).state().cpu.default_set.Count(), 2);
}

TEST(Fleet, RefusesAPodThatItHas) {
  FleetNode node = NodeOf("a", "socket:2 numa:1 core:8");
  node.running = {Asking("r", "2")};
  Fleet fleet = FleetOf({node, NodeOf("b", "socket:2 numa:1 core:8")});
  for (const char* name : {"r", "p"}) {
    if (std::string(name) == "p") {
      EXPECT_TRUE(fleet.Place(Asking("p", "1")).has_value());
    }
    const std::vector<AnswerGroup> others = fleet.OtherNodes(Asking(name, "1"));
    ASSERT_EQ(others.size(), 1U);
    EXPECT_EQ(others[0].nodes.size(), 2U);
    EXPECT_EQ(others[0].stage, Stage::kValidation);
    EXPECT_EQ(fleet.Ask(1, Asking(name, "1")).cause, others[0].cause);
    EXPECT_EQ(fleet.Place(Asking(name, "1")), std::nullopt);
    EXPECT_TRUE(fleet.FittingNodes(Asking(name, "1")).empty());
  }
}

// It may be on any node that cannot decide about it.
TEST(Fleet, IsUndecidedAfterAPodThatCannotBeDecided) {
  Fleet fleet =
      FleetOf({NodeOf("a", "socket:2 numa:1 core:8"), NodeOf("b", "socket:2 numa:1 core:2")});
  PlannedPod pod = Asking("p", "6");
  pod.undecided = {"claims"};
  EXPECT_EQ(fleet.Place(pod), std::nullopt);
  const PlannedPod next = Asking("q", "1");
  ASSERT_EQ(fleet.OtherNodes(next).size(), 1U);
  EXPECT_EQ(fleet.OtherNodes(next)[0].outcome, Outcome::kUndecided);
  EXPECT_EQ(fleet.OtherNodes(next)[0].nodes, std::vector<size_t>{0});
  EXPECT_EQ(fleet.Place(next), 1U);
}

TEST(Fleet, NeedsDifferentNames) {
  const FleetNode node = NodeOf("a", "socket:2 numa:1 core:8");
  EXPECT_FALSE(Fleet::Make({}, ScoreStrategy::kByLeastAllocated).ok());
  EXPECT_FALSE(Fleet::Make({node, node}, ScoreStrategy::kByLeastAllocated).ok());
  FleetNode bad = NodeOf("b", "socket:2 numa:1 core:8");
  bad.config = R"({"cpuManagerPolicy":"static"})";  // nothing is reserved
  EXPECT_FALSE(Fleet::Make({node, bad}, ScoreStrategy::kByLeastAllocated).ok());
  std::vector<LeftOut> left_out;
  const auto fleet =
      Fleet::Make({node, bad}, ScoreStrategy::kByLeastAllocated, ForEachInTurn, &left_out);
  ASSERT_TRUE(fleet.ok());
  EXPECT_EQ(fleet->size(), 1U);
  ASSERT_EQ(left_out.size(), 1U);
  EXPECT_EQ(left_out[0].node, "b");
}

}  // namespace
}  // namespace alignd::placement
