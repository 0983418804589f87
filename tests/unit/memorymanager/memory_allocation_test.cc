#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/memory_nodes.h"

namespace alignd::memorymanager {
namespace {

const std::vector<std::string> kSound;

std::string Refused(const std::string& error) {
  return UnexpectedAdmissionError("[memorymanager] " + error).message;
}

Pod AskingForMemory(const std::string& memory, const std::string& uid = "p") {
  return GuaranteedPod(uid, {App("app", {{"memory", memory}})});
}

TEST(MemoryAllocation, FollowsTheAffinityAndExtendsIt) {
  struct Case {
    const char* name;
    const char* request;
    topologymanager::TopologyHint affinity;
    std::string blocks;
    std::string refusal;
  };
  const Case cases[] = {
      {"one node", "8Gi", OnNodes(0b010), "memory 8Gi on 1", ""},
      {"a wide affinity makes a group, also for little", "1Gi", OnNodes(0b011), "memory 1Gi on 0,1",
       ""},
      {"no affinity: the narrowest, lowest set", "10Gi", Anywhere(), "memory 10Gi on 1", ""},
      {"extended to the narrowest set with the promised node", "15Gi", OnNodes(0b010),
       "memory 15Gi on 0,1", ""},
      {"more than the machine", "40Gi", Anywhere(), "",
       Refused("failed to get the default NUMA affinity, no NUMA nodes with enough memory is "
               "available")},
      {"more than the machine, with an affinity", "40Gi", OnNodes(0b001), "",
       Refused("failed to find NUMA nodes to extend the current topology hint")},
      {"not whole bytes", "1500m", Anywhere(), "",
       Refused("failed to represent quantity as int64")},
      {"10^18 bytes", "1000000000000000000", OnNodes(0b001), "",
       Refused("failed to represent quantity as int64")},
      {"the largest amount that is compared", "999999999999999999", OnNodes(0b001), "",
       Refused("failed to find NUMA nodes to extend the current topology hint")},
      {"more than 64 bits", "16Ei", OnNodes(0b001), "",
       Refused("failed to represent quantity as int64")},
      // The kubelet refuses whole numbers in these spellings.
      {"with a point", "1.0Gi", OnNodes(0b001), "memory 1Gi on 0", ""},
      {"half of a unit", "0.5Ti", OnNodes(0b001), "",
       Refused("failed to find NUMA nodes to extend the current topology hint")},
      {"in thousandths", "1073741824000m", OnNodes(0b001), "memory 1Gi on 0", ""},
  };
  for (const Case& c : cases) {
    MemoryNode node = ThreeNodes();
    EXPECT_EQ(node.Give(AskingForMemory(c.request), "app", c.affinity), c.refusal) << c.name;
    EXPECT_EQ(node.BlocksOf("p", "app"), c.blocks) << c.name;
    EXPECT_EQ(node.Broken(), kSound) << c.name;
  }
}

// Only possible if status.qosClass says Guaranteed.
TEST(MemoryAllocation, AContainerThatRequestsNoneHasAnEmptyEntry) {
  for (const topologymanager::TopologyHint& affinity :
       {OnNodes(0b001, true), OnNodes(0b110), Anywhere(true), Anywhere(false)}) {
    MemoryNode node = ThreeNodes();
    ASSERT_EQ(node.Give(AskingForMemory("1Gi", "other"), "app", OnNodes(0b010)), "");
    const MemoryState before = node.state;
    const Pod pod = GuaranteedPod("p", {App("app", {{"cpu", "1"}})});
    EXPECT_TRUE(
        ContainerHints(node.machine, node.policy, node.state, pod, pod.containers[0]).empty());
    ASSERT_EQ(node.Give(pod, "app", affinity), "");
    const std::vector<Block>* const blocks = node.state.Find({"p", "app"});
    ASSERT_NE(blocks, nullptr);
    EXPECT_TRUE(blocks->empty());
    EXPECT_EQ(node.state.machine, before.machine);
    EXPECT_EQ(node.Broken(), kSound);
    EXPECT_TRUE(ValidateLoaded(node.machine, node.policy, node.state).ok());
    ReleasePod("p", node.state);
    EXPECT_EQ(node.state, before);
  }
}

// 64 nodes, all different, in seven types: the narrowest set to extend to is a knapsack problem
// that takes too many steps.
TEST(MemoryAllocation, ReportsThatTheSearchEndedAtItsLimit) {
  const std::map<std::string, uint64_t> page_bytes = {
      {"hugepages-64Ki", 64 << 10}, {"hugepages-256Ki", 256 << 10}, {"hugepages-1Mi", 1 << 20},
      {"hugepages-2Mi", 2 << 20},   {"hugepages-16Mi", 16 << 20},   {"hugepages-32Mi", 32 << 20}};
  std::vector<NumaNode> nodes;
  std::map<std::string, uint64_t> half;
  uint64_t drawn = 1;
  const auto draw = [&drawn] {
    drawn = drawn * 6364136223846793005 + 1442695040888963407;
    return (drawn >> 33) % 10'000 + 1;
  };
  for (int id = 0; id < 64; ++id) {
    NumaNode& node = nodes.emplace_back();
    node.id = id;
    node.memory_bytes = (draw() + 1) * (64 << 20);
    half["memory"] += node.memory_bytes / 2;
    for (const auto& [type, size] : page_bytes) {
      const uint64_t pages = draw();
      node.hugepages[size] = pages;
      node.memory_bytes += pages * size;
      half[type] += pages * size / 2 / size * size;
    }
  }
  MemoryNode node = MemoryNode::Make(MachineOf(std::move(nodes)), Reserving({{0, "1Mi"}}));
  std::map<std::string, std::string> amounts;
  for (const auto& [type, bytes] : half) amounts[type] = std::to_string(bytes);
  const Pod pod = GuaranteedPod("p", {App("app", amounts)});
  const auto give = [&](const Pod& asking) {
    MemoryState next = node.state;
    return Allocate(node.machine, node.policy, asking, asking.containers.front(), OnNodes(1), next);
  };
  const Placement hard = give(pod);
  EXPECT_FALSE(hard.exact);
  EXPECT_FALSE(hard.refusal) << hard.refusal->message;
  EXPECT_TRUE(give(AskingForMemory("1Mi")).exact);
}

// The kubelet dereferences a missing entry and panics.
TEST(MemoryAllocation, RefusesATypeThatTheMachineLacks) {
  MemoryNode node = ThreeNodes();
  const Pod pod = GuaranteedPod("p", {App("app", {{"memory", "1Gi"}, {"hugepages-1Gi", "1Gi"}})});
  EXPECT_EQ(PodHints(node.machine, node.policy, node.state, pod).size(), 0u);
  EXPECT_EQ(node.Give(pod, "app", OnNodes(1)),
            Refused("the machine has no memory of type \"hugepages-1Gi\""));
}

TEST(MemoryAllocation, ATypeThatOnlySomeNodesHave) {
  std::vector<NumaNode> nodes = PlainNumaNodes(2, 10 * kGi);
  nodes[1].hugepages[kGi] = 4;
  MemoryNode node = MemoryNode::Make(MachineOf(std::move(nodes)), Reserving({{0, "1Gi"}}));
  const Pod pod = GuaranteedPod("p", {App("app", {{"memory", "12Gi"}, {"hugepages-1Gi", "3Gi"}})});
  const MemoryState before = node.state;
  ASSERT_EQ(node.Give(pod, "app", Anywhere()), "");
  EXPECT_EQ(node.BlocksOf("p", "app"), "hugepages-1Gi 3Gi on 0,1; memory 12Gi on 0,1");
  EXPECT_EQ(node.Broken(), kSound);
  EXPECT_TRUE(ValidateLoaded(node.machine, node.policy, node.state).ok());
  ReleasePod("p", node.state);
  EXPECT_EQ(node.state, before);
}

TEST(MemoryAllocation, BooksTheLowestNodeFirst) {
  MemoryNode node = ThreeNodes();
  ASSERT_EQ(node.Give(AskingForMemory("12Gi"), "app", OnNodes(0b011)), "");
  EXPECT_EQ(node.ReservedGi(0), 9u);
  EXPECT_EQ(node.ReservedGi(1), 3u);
  EXPECT_EQ(node.state.machine.at(0).cells, (std::vector<int>{0, 1}));
  EXPECT_EQ(node.state.machine.at(1).cells, (std::vector<int>{0, 1}));
  EXPECT_EQ(node.state.machine.at(1).number_of_assignments, 1);

  // Memory returns to the lowest node first, wherever it was booked.
  ASSERT_EQ(node.Give(AskingForMemory("5Gi", "q"), "app", OnNodes(0b011)), "");
  EXPECT_EQ(node.ReservedGi(1), 8u);
  ReleasePod("q", node.state);
  EXPECT_EQ(node.ReservedGi(0), 4u);
  EXPECT_EQ(node.ReservedGi(1), 8u);
  EXPECT_EQ(node.Broken(), kSound);
}

TEST(MemoryAllocation, EveryTypeIsAnAssignment) {
  MemoryNode node = ThreeNodes();
  const Pod pod = GuaranteedPod("p", {App("app", {{"memory", "1Gi"}, {"hugepages-2Mi", "1Gi"}})});
  ASSERT_EQ(node.Give(pod, "app", OnNodes(0b100)), "");
  EXPECT_EQ(node.state.machine.at(2).number_of_assignments, 2);
  EXPECT_EQ(node.BlocksOf("p", "app"), "hugepages-2Mi 1Gi on 2; memory 1Gi on 2");
  EXPECT_EQ(node.ReservedGi(2, "hugepages-2Mi"), 1u);
}

TEST(MemoryAllocation, WhatWasPromisedAsPreferredMustStayPreferred) {
  MemoryNode node = ThreeNodes();
  for (const char* uid : {"a", "b", "c"}) {
    const uint64_t mask = uint64_t{1} << (uid[0] - 'a');
    ASSERT_EQ(node.Give(AskingForMemory("1Gi", uid), "app", OnNodes(mask)), "");
  }
  ReleasePod("c", node.state);
  ASSERT_EQ(node.Give(AskingForMemory("10Gi", "c"), "app", OnNodes(0b100)), "");
  ReleasePod("a", node.state);
  ReleasePod("b", node.state);
  ASSERT_EQ(node.Give(AskingForMemory("11Gi", "wide"), "app", OnNodes(0b011)), "");
  // 8 GiB would fit on one empty node, but now only the group has them.
  MemoryNode promised = node;
  EXPECT_EQ(promised.Give(AskingForMemory("8Gi"), "app", Anywhere(true)),
            Refused("failed to find the default preferred hint"));
  EXPECT_EQ(promised.Give(AskingForMemory("8Gi"), "app", OnNodes(0b010, true)),
            Refused("failed to find the extended preferred hint"));
  EXPECT_EQ(node.Give(AskingForMemory("8Gi"), "app", Anywhere(false)), "");
  EXPECT_EQ(node.BlocksOf("p", "app"), "memory 8Gi on 0,1");
}

TEST(MemoryAllocation, AWiderAffinityMayNotCutThroughAGroup) {
  MemoryNode node = ThreeNodes();
  ASSERT_EQ(node.Give(AskingForMemory("1Gi", "q"), "app", OnNodes(0b011)), "");
  const std::string violates = Refused("preferred hint violates NUMA node allocation");
  EXPECT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(0b110)), violates);
  EXPECT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(0b111)), violates);
  EXPECT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(0b011)), "");
}

// The kubelet takes the node out of the group, and the sums of the group are wrong.
TEST(MemoryAllocation, ASingleNodeIsNotTornOutOfAGroup) {
  MemoryNode node = ThreeNodes();
  ASSERT_EQ(node.Give(AskingForMemory("12Gi", "wide"), "app", OnNodes(0b011)), "");
  const MemoryState before = node.state;
  ASSERT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(0b010)), "");
  EXPECT_EQ(node.BlocksOf("p", "app"), "memory 1Gi on 0,1");
  EXPECT_EQ(node.Broken(), kSound);
  ReleasePod("wide", node.state);
  EXPECT_EQ(node.Broken(), kSound);
  ReleasePod("p", node.state);
  EXPECT_EQ(node.state, ThreeNodes().state);

  // Its own pod's group, made by extending the same affinity: refused as in the kubelet.
  node.state = ThreeNodes().state;
  const Pod pod =
      GuaranteedPod("p", {Init("init", {{"memory", "12Gi"}}), App("app", {{"memory", "1Gi"}})});
  ASSERT_EQ(node.Give(pod, "init", OnNodes(0b010)), "");
  EXPECT_EQ(node.Give(pod, "app", OnNodes(0b010)),
            Refused("failed to find NUMA nodes to extend the current topology hint"));
}

TEST(MemoryAllocation, IsForPinnedPodsAndOnlyOnce) {
  MemoryNode node = ThreeNodes();
  Pod burstable = AskingForMemory("1Gi");
  burstable.stated_qos = QosClass::kBurstable;
  const MemoryState empty = node.state;
  EXPECT_EQ(node.Give(burstable, "app", OnNodes(1)), "");
  EXPECT_EQ(node.state, empty);
  ASSERT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(1)), "");
  const MemoryState once = node.state;
  EXPECT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(2)), "");
  EXPECT_EQ(node.state, once);
}

TEST(MemoryReuse, LaterContainersTakeWhatInitContainersHold) {
  MemoryNode node = ThreeNodes();
  const MemoryState empty = node.state;
  const Pod pod =
      GuaranteedPod("p", {Init("one", {{"memory", "6Gi"}}), Sidecar("side", {{"memory", "1Gi"}}),
                          Init("two", {{"memory", "7Gi"}}), App("app", {{"memory", "3Gi"}})});
  ASSERT_EQ(node.Give(pod, "one", OnNodes(1)), "");
  EXPECT_EQ(node.ReservedGi(0), 6u);
  ASSERT_EQ(node.Give(pod, "side", OnNodes(1)), "");
  EXPECT_EQ(node.ReservedGi(0), 6u);
  EXPECT_EQ(node.BlocksOf("p", "one"), "memory 5Gi on 0");
  ASSERT_EQ(node.Give(pod, "two", OnNodes(1)), "");
  EXPECT_EQ(node.ReservedGi(0), 8u);
  EXPECT_EQ(node.BlocksOf("p", "one"), "memory 0Gi on 0");
  ASSERT_EQ(node.Give(pod, "app", OnNodes(1)), "");
  EXPECT_EQ(node.ReservedGi(0), 8u);
  EXPECT_EQ(node.BlocksOf("p", "two"), "memory 4Gi on 0");
  EXPECT_EQ(node.Broken(), kSound);

  ContainerStarts(pod, "side", node.state);
  EXPECT_EQ(node.state.Find({"p", "one"}), nullptr);
  EXPECT_EQ(node.ReservedGi(0), 8u);
  ContainerStarts(pod, "app", node.state);
  EXPECT_EQ(node.ReservedGi(0), 4u);
  EXPECT_EQ(node.BlocksOf("p", "side"), "memory 1Gi on 0");
  EXPECT_EQ(node.Broken(), kSound);
  ReleasePod("p", node.state);
  EXPECT_EQ(node.state, empty);
}

TEST(MemoryReuse, OnlyOnExactlyTheSameNodes) {
  MemoryNode node = ThreeNodes();
  const Pod pod =
      GuaranteedPod("p", {Init("init", {{"memory", "6Gi"}}), App("app", {{"memory", "3Gi"}})});
  ASSERT_EQ(node.Give(pod, "init", OnNodes(0b001)), "");
  ASSERT_EQ(node.Give(pod, "app", OnNodes(0b010)), "");
  EXPECT_EQ(node.ReservedGi(0), 6u);
  EXPECT_EQ(node.ReservedGi(1), 3u);
  EXPECT_EQ(node.BlocksOf("p", "init"), "memory 6Gi on 0");
}

// The kubelet loses the reusable memory if it admits another pod in between and at a restart. But
// it still subtracts it from the init container's block, so this memory is never released.
TEST(MemoryReuse, NothingLeaksIfAnotherPodComesInBetween) {
  MemoryNode node = ThreeNodes();
  const MemoryState empty = node.state;
  const Pod pod =
      GuaranteedPod("p", {Init("init", {{"memory", "6Gi"}}), App("app", {{"memory", "4Gi"}})});
  ASSERT_EQ(node.Give(pod, "init", OnNodes(0b001)), "");
  ASSERT_EQ(node.Give(AskingForMemory("1Gi", "q"), "app", OnNodes(0b001)), "");
  ASSERT_EQ(node.Give(pod, "app", OnNodes(0b001)), "");
  EXPECT_EQ(node.ReservedGi(0), 7u);
  EXPECT_EQ(node.Broken(), kSound);
  ReleasePod("p", node.state);
  ReleasePod("q", node.state);
  EXPECT_EQ(node.state, empty);
}

// After a restart, the kubelet reserves memory again for ended init containers.
TEST(MemoryReuse, AnInitContainerThatHasRunGetsNothingAgain) {
  MemoryNode node = ThreeNodes();
  const Pod pod =
      GuaranteedPod("p", {Init("init", {{"memory", "6Gi"}}), App("app", {{"memory", "4Gi"}})});
  ASSERT_EQ(node.Give(pod, "init", OnNodes(0b001)), "");
  ASSERT_EQ(node.Give(pod, "app", OnNodes(0b001)), "");
  ContainerStarts(pod, "app", node.state);
  const MemoryState running = node.state;
  EXPECT_TRUE(
      ContainerHints(node.machine, node.policy, node.state, pod, pod.containers[0]).empty());
  EXPECT_EQ(node.Give(pod, "init", OnNodes(0b010)), "");
  EXPECT_EQ(node.state, running);
}

// The containers of a pod that is not complete are known one by one, and only what has ended is
// known as an init container.
TEST(MemoryReuse, OfAPodThatIsNotCompleteNothingIsLeftToWhatHasEnded) {
  for (const int gib : {2, 3}) {
    MemoryNode node = ThreeNodes();
    const MemoryState empty = node.state;
    Pod pod = GuaranteedPod("p", {App("earlier", {{"memory", "3Gi"}})});
    pod.is_complete = false;
    ASSERT_EQ(node.Give(pod, "earlier", OnNodes(1)), "");
    pod.containers = {Init("earlier", {{"memory", "3Gi"}}), Init("other", {{"memory", "3Gi"}}),
                      App("init", {{"memory", std::to_string(gib) + "Gi"}})};
    ASSERT_EQ(node.Give(pod, "init", OnNodes(1)), "");
    EXPECT_EQ(node.state.Find({"p", "earlier"}), nullptr);
    EXPECT_EQ(node.ReservedGi(0), static_cast<uint64_t>(gib));
    EXPECT_EQ(node.Broken(), kSound);
    pod.containers = {Init("init", {{"memory", "2Gi"}}), App("earlier", {{"memory", "3Gi"}})};
    ASSERT_EQ(node.Give(pod, "earlier", OnNodes(1)), "");
    EXPECT_EQ(node.BlocksOf("p", "earlier"), "memory 3Gi on 0");
    EXPECT_EQ(node.ReservedGi(0), 3U);
    EXPECT_EQ(node.Broken(), kSound);
    ReleasePod("p", node.state);
    EXPECT_EQ(node.state, empty);
  }
}

TEST(MemoryRelease, AfterARefusalOnlyTheSplitInsideAGroupMayHaveMoved) {
  MemoryNode node = ThreeNodes();
  ASSERT_EQ(node.Give(AskingForMemory("12Gi", "q"), "app", OnNodes(0b011)), "");
  const MemoryNode before = node;
  ASSERT_EQ(node.Give(AskingForMemory("2Gi"), "app", OnNodes(0b011)), "");
  node.state = AfterRefusal("p", before.state, node.state);
  EXPECT_EQ(node.ReservedGi(0), before.ReservedGi(0) - 2);
  EXPECT_EQ(node.ReservedGi(1), before.ReservedGi(1) + 2);
  EXPECT_EQ(node.state.assignments, before.state.assignments);
  EXPECT_EQ(node.Broken(), kSound);

  EXPECT_EQ(AfterRefusal("q", before.state, node.state), before.state) << "a pod that held memory";
}

TEST(MemoryRelease, OfWhatIsNotHeldChangesNothing) {
  MemoryNode node = ThreeNodes();
  ASSERT_EQ(node.Give(AskingForMemory("1Gi"), "app", OnNodes(1)), "");
  const MemoryState before = node.state;
  ReleaseContainer({"p", "other"}, node.state);
  ReleaseContainer({"q", "app"}, node.state);
  ReleasePod("q", node.state);
  EXPECT_EQ(node.state, before);
  ReleaseContainer({"p", "app"}, node.state);
  EXPECT_EQ(node.state, ThreeNodes().state);
}

}  // namespace
}  // namespace alignd::memorymanager
