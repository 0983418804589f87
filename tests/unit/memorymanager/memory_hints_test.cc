#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/memory_nodes.h"

namespace alignd::memorymanager {
namespace {

using topologymanager::HintsByResource;

// "0! 01" is node {0} preferred, nodes {0,1} not preferred.
std::string Text(const HintsByResource& hints, const std::string& type = "memory") {
  const auto found = hints.find(type);
  if (found == hints.end()) return "no opinion";
  std::string text;
  for (const auto& hint : found->second->All()) {
    if (!text.empty()) text += ' ';
    for (const int node : *hint.affinity) text += std::to_string(node);
    if (hint.preferred) text += '!';
  }
  return text;
}

TEST(MemoryHints, OnAnEmptyMachine) {
  // Nodes of 10 GiB; 1 GiB of node 0 is reserved.
  const MemoryNode node = ThreeNodes();
  struct Case {
    const char* name;
    const char* request;
    const char* hints;
  };
  const Case cases[] = {
      {"fits everywhere", "9Gi", "0! 1! 2! 01 02 12 012"},
      {"the reservation counts", "10Gi", "1! 2! 01 02 12 012"},
      {"two nodes are the least", "11Gi", "01! 02! 12! 012"},
      {"all nodes", "29Gi", "012!"},
      {"more than the machine has: no opinion", "30Gi", "no opinion"},
  };
  for (const Case& c : cases) {
    const Pod pod = GuaranteedPod("p", {App("app", {{"memory", c.request}})});
    EXPECT_EQ(Text(ContainerHints(node.machine, node.policy, node.state, pod, pod.containers[0])),
              c.hints)
        << c.name;
    EXPECT_EQ(Text(PodHints(node.machine, node.policy, node.state, pod)), c.hints) << c.name;
  }
}

TEST(MemoryHints, OneComputationForAllTypes) {
  const MemoryNode node = ThreeNodes();  // 2 GiB of 2 MiB pages on node 2, none elsewhere
  const Pod pod = GuaranteedPod("p", {App("app", {{"memory", "8Gi"}, {"hugepages-2Mi", "1Gi"}})});
  const auto hints = ContainerHints(node.machine, node.policy, node.state, pod, pod.containers[0]);
  EXPECT_EQ(Text(hints), "2! 02 12 012");
  EXPECT_EQ(Text(hints, "hugepages-2Mi"), "2! 02 12 012");
}

TEST(MemoryHints, AreForPinnedPodsOnly) {
  const MemoryNode node = ThreeNodes();
  Pod burstable = GuaranteedPod("p", {App("app", {{"memory", "1Gi"}})});
  burstable.stated_qos = QosClass::kBurstable;
  EXPECT_TRUE(
      ContainerHints(node.machine, node.policy, node.state, burstable, burstable.containers[0])
          .empty());
  EXPECT_TRUE(PodHints(node.machine, node.policy, node.state, burstable).empty());
  Pod pod_level = GuaranteedPod("p", {App("app", {{"memory", "1Gi"}})});
  pod_level.pod_level = Resources{.requests = Amounts({{"memory", "1Gi"}}), .limits = {}};
  EXPECT_TRUE(
      ContainerHints(node.machine, node.policy, node.state, pod_level, pod_level.containers[0])
          .empty());
  EXPECT_TRUE(PodHints(node.machine, node.policy, node.state, pod_level).empty());
}

TEST(MemoryHints, GroupsAndSingleNodesKeepApart) {
  MemoryNode node = ThreeNodes();
  const Pod wide = GuaranteedPod("wide", {App("app", {{"memory", "12Gi"}})});
  ASSERT_EQ(node.Give(wide, "app", OnNodes(0b011)), "");
  const Pod small = GuaranteedPod("small", {App("app", {{"memory", "1Gi"}})});
  const auto hints = [&] {
    return Text(ContainerHints(node.machine, node.policy, node.state, small, small.containers[0]));
  };
  EXPECT_EQ(hints(), "2! 01") << "nodes 0 and 1 serve as a group only";
  ASSERT_EQ(node.Give(small, "app", OnNodes(0b100)), "");
  EXPECT_EQ(Text(ContainerHints(node.machine, node.policy, node.state, wide, wide.containers[0])),
            "01!")
      << "a container that is assigned memory gets exactly its nodes";
  ReleasePod("wide", node.state);
  ReleasePod("small", node.state);
  EXPECT_EQ(hints(), "0! 1! 2! 01 02 12 012");
}

TEST(MemoryHints, NoOpinionForAHolderWhoseRequestChanged) {
  MemoryNode node = ThreeNodes();
  ASSERT_EQ(node.Give(GuaranteedPod("p", {App("app", {{"memory", "1Gi"}})}), "app", OnNodes(1)),
            "");
  const Pod more = GuaranteedPod("p", {App("app", {{"memory", "2Gi"}})});
  EXPECT_TRUE(
      ContainerHints(node.machine, node.policy, node.state, more, more.containers[0]).empty());
  EXPECT_TRUE(PodHints(node.machine, node.policy, node.state, more).empty());
}

TEST(MemoryHints, PodRequestIsWhatRunsAtTheSameTime) {
  const MemoryNode node = ThreeNodes();
  struct Case {
    const char* name;
    std::vector<Container> containers;
    const char* hints;
  };
  const Case cases[] = {
      {"apps add up",
       {App("a", {{"memory", "6Gi"}}), App("b", {{"memory", "5Gi"}})},
       "01! 02! 12! 012"},
      {"init containers follow each other",
       {Init("i", {{"memory", "6Gi"}}), Init("j", {{"memory", "6Gi"}}),
        App("a", {{"memory", "1Gi"}})},
       "0! 1! 2! 01 02 12 012"},
      {"a sidecar runs beside a later init container",
       {Sidecar("s", {{"memory", "6Gi"}}), Init("i", {{"memory", "6Gi"}}),
        App("a", {{"memory", "1Gi"}})},
       "01! 02! 12! 012"},
  };
  for (const Case& c : cases) {
    const Pod pod = GuaranteedPod("p", c.containers);
    EXPECT_EQ(Text(PodHints(node.machine, node.policy, node.state, pod)), c.hints) << c.name;
  }
}

TEST(MemoryHints, CountWhatInitContainersLeave) {
  MemoryNode node = ThreeNodes();
  const Pod pod =
      GuaranteedPod("p", {Init("init", {{"memory", "8Gi"}}), App("app", {{"memory", "9Gi"}})});
  ASSERT_EQ(node.Give(pod, "init", OnNodes(0b001)), "");
  EXPECT_EQ(Text(ContainerHints(node.machine, node.policy, node.state, pod, pod.containers[1])),
            "0! 1! 2! 12");
}

}  // namespace
}  // namespace alignd::memorymanager
