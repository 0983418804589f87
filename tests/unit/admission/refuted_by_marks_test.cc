// Memory and devices of a valid state file that are not true: of an older copy, for example.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/memorymanager/adoption.h"
#include "core/machine_builder.h"
#include "core/pod_builder.h"

namespace alignd::admission {
namespace {

constexpr char kRefutedGpu[] = "a.com/gpu";
constexpr uint64_t kGi = 1ULL << 30;

// Two NUMA nodes with 8 GiB each, of which the first has 1 GiB reserved.
class RefutedByMarks : public testing::Test {
 protected:
  RefutedByMarks() : node_(Make()), state_(NodeState::Initial(node_)) {}

  static Node Make() {
    KubeletConfig config;
    config.memory_manager_policy = MemoryManagerPolicy::kStatic;
    config.eviction_hard_memory = "";
    config.reserved_memory = {{.numa_node = 0, .limits = Amounts({{"memory", "1Gi"}})}};
    config.system_reserved = Amounts({{"memory", "1Gi"}});
    config.topology_manager_policy = TopologyManagerPolicy::kBestEffort;
    return Node::Make(MakeMachine("socket:2 numa:1 core:4 memory-gib=8"), config).value();
  }
  static std::vector<memorymanager::Block> Memory(int numa, uint64_t gib) {
    return {{.numa_affinity = {numa}, .type = "memory", .size = gib * kGi}};
  }

  void HasMemory(const std::string& uid, int numa, uint64_t gib) {
    ASSERT_TRUE(memorymanager::AdoptContainer({uid, "app"}, Memory(numa, gib), state_.memory).ok());
  }
  void HasGpus(const std::string& uid, const std::vector<std::string>& ids) {
    state_.devices.resources[kRefutedGpu] = {};
    state_.devices.allocations[{uid, "app"}][kRefutedGpu] = {.devices = {{-1, ids}},
                                                             .response = "of the plugin"};
  }
  static MarkedContainer Running(const std::string& uid) {
    MarkedContainer container;
    container.id = "id-" + uid;
    container.key = {uid, "app"};
    container.pod = "default/" + uid;
    return container;
  }
  static MarkedContainer WithMemory(const std::string& uid, int numa, uint64_t gib) {
    MarkedContainer container = Running(uid);
    container.mark.memory = Memory(numa, gib);
    return container;
  }
  static MarkedContainer WithGpus(const std::string& uid, const std::vector<std::string>& ids) {
    MarkedContainer container = Running(uid);
    container.mark.devices[kRefutedGpu] = {{-1, ids}};
    return container;
  }

  // The texts of what is refuted, in either order of the containers.
  std::vector<std::string> Refuted(std::vector<MarkedContainer> containers) {
    std::vector<std::string> texts;
    for (const AdoptionNote& note : FindRefuted(node_, state_, containers)) {
      texts.push_back(note.text);
    }
    std::vector<MarkedContainer> reversed(containers.rbegin(), containers.rend());
    adoption_ = Adopt(node_, state_, {}, std::move(containers));
    EXPECT_EQ(adoption_.next.BrokenInvariants(node_), std::vector<std::string>());
    EXPECT_EQ(adoption_.refuted.size(), texts.size());
    EXPECT_EQ(Adopt(node_, state_, {}, std::move(reversed)).next, adoption_.next);
    return texts;
  }
  // NUMA node and GiB; "" if it has none.
  std::string MemoryNow(const std::string& uid) const {
    const auto* const blocks = adoption_.next.memory.Find({uid, "app"});
    if (blocks == nullptr || blocks->size() != 1) return "";
    return std::to_string(blocks->front().numa_affinity.front()) + ": " +
           std::to_string(blocks->front().size / kGi);
  }
  std::set<std::string> GpusNow(const std::string& uid) const {
    const auto* const gpus = adoption_.next.devices.Find({uid, "app"}, kRefutedGpu);
    return gpus == nullptr ? std::set<std::string>() : gpus->Ids();
  }

  using Texts = std::vector<std::string>;
  using Ids = std::set<std::string>;
  const Node node_;
  NodeState state_;
  Adoption adoption_;
};

// It was released and admitted again after the copy was made. Nothing else contradicts the file.
TEST_F(RefutedByMarks, AContainerHasTheMemoryOfItsMark) {
  HasMemory("a", 0, 5);
  EXPECT_EQ(Refuted({WithMemory("a", 1, 5)}),
            Texts{"the state files have 5368709120 bytes of memory on NUMA nodes 0 for container "
                  "app of pod default/a, but it was created with 5368709120 bytes of memory on "
                  "NUMA nodes 1"});
  EXPECT_EQ(MemoryNow("a"), "1: 5");
  EXPECT_EQ(adoption_.next.memory.machine.at(0).tables.at("memory").reserved, 0U);
  EXPECT_EQ(adoption_.unknown.size(), 0U);
}

TEST_F(RefutedByMarks, TwoContainersHaveTheMemoryOfEachOther) {
  HasMemory("a", 0, 6);
  HasMemory("b", 1, 7);
  EXPECT_EQ(Refuted({WithMemory("a", 1, 6), WithMemory("b", 0, 7)}).size(), 2U);
  EXPECT_EQ(MemoryNow("a"), "1: 6");
  EXPECT_EQ(MemoryNow("b"), "0: 7");
}

// Less than it has, so that other pods would get the rest.
TEST_F(RefutedByMarks, AnotherAmountIsRefuted) {
  HasMemory("a", 1, 2);
  EXPECT_EQ(Refuted({WithMemory("a", 1, 6)}).size(), 1U);
  EXPECT_EQ(MemoryNow("a"), "1: 6");
}

TEST_F(RefutedByMarks, MemoryOfWhatDoesNotRunGivesWay) {
  HasMemory("ended", 1, 5);
  EXPECT_EQ(Refuted({WithMemory("b", 1, 6)}),
            Texts{"the state files have 5368709120 bytes of memory on NUMA nodes 1 for container "
                  "app of pod ended, but it does not run, and container app of pod default/b runs "
                  "with 6442450944 bytes of memory on NUMA nodes 1"});
  EXPECT_EQ(MemoryNow("ended"), "");
  EXPECT_EQ(MemoryNow("b"), "1: 6");
}

// `a`, which is looked at first, is not enough.
TEST_F(RefutedByMarks, OnlyWhatIsNeededGivesWay) {
  HasMemory("a", 1, 1);
  HasMemory("c", 1, 6);
  EXPECT_EQ(Refuted({WithMemory("b", 1, 6)}).size(), 1U);
  EXPECT_EQ(MemoryNow("a"), "1: 1");
  EXPECT_EQ(MemoryNow("c"), "");
  EXPECT_EQ(MemoryNow("b"), "1: 6");
}

TEST_F(RefutedByMarks, MemoryOfWhatDoesNotRunStaysIfThereIsEnough) {
  HasMemory("ended", 1, 2);
  HasMemory("elsewhere", 0, 2);
  EXPECT_EQ(Refuted({WithMemory("b", 1, 6)}), Texts());
  EXPECT_EQ(MemoryNow("ended"), "1: 2");
  EXPECT_EQ(MemoryNow("b"), "1: 6");
}

// It would not be enough: the node does not have as much.
TEST_F(RefutedByMarks, NothingGivesWayInVain) {
  HasMemory("ended", 1, 2);
  EXPECT_EQ(Refuted({WithMemory("b", 1, 9)}), Texts());
  EXPECT_EQ(MemoryNow("ended"), "1: 2");
  EXPECT_EQ(adoption_.unknown.size(), 1U);
}

// A container that runs without a mark, as one that the kubelet has created, keeps what the state
// has.
TEST_F(RefutedByMarks, MemoryThatNoMarkContradictsStays) {
  HasMemory("a", 1, 5);
  EXPECT_EQ(Refuted({Running("a"), WithMemory("b", 1, 6)}), Texts());
  EXPECT_EQ(MemoryNow("a"), "1: 5");
  EXPECT_EQ(Refuted({WithMemory("a", 1, 5)}), Texts());
}

// The next container of the pod takes a part of its memory over, or all.
TEST_F(RefutedByMarks, AnInitContainerMayHaveAPartOfItsMemory) {
  HasMemory("a", 1, 5);
  MarkedContainer init = WithMemory("a", 1, 6);
  init.mark.role = ContainerKind::kInit;
  EXPECT_EQ(Refuted({init}), Texts());
  EXPECT_EQ(MemoryNow("a"), "1: 5");
  init.mark.memory = Memory(0, 6);
  EXPECT_EQ(Refuted({init}).size(), 1U);
  EXPECT_EQ(MemoryNow("a"), "0: 6");
  init.mark.memory = Memory(1, 4);
  EXPECT_EQ(Refuted({init}).size(), 1U);
  EXPECT_EQ(MemoryNow("a"), "1: 4");
  state_.memory.assignments["b"]["app"] = {};
  MarkedContainer used = WithMemory("b", 0, 1);
  used.mark.role = ContainerKind::kInit;
  EXPECT_EQ(Refuted({WithMemory("a", 1, 5), used}), Texts());
}

// The kubelet's file has the blocks in any order.
TEST_F(RefutedByMarks, TheOrderOfBlocksIsNoDifference) {
  std::vector<memorymanager::Block> blocks = Memory(1, 1);
  blocks.push_back({.numa_affinity = {0}, .type = "memory", .size = kGi});
  ASSERT_TRUE(memorymanager::AdoptContainer({"a", "app"}, blocks, state_.memory).ok());
  MarkedContainer container = Running("a");
  container.mark.memory = {blocks[1], blocks[0]};
  EXPECT_EQ(Refuted({container}), Texts());
}

TEST_F(RefutedByMarks, AContainerHasTheDevicesOfItsMark) {
  HasGpus("a", {"g0"});
  EXPECT_EQ(Refuted({WithGpus("a", {"g1"})}),
            Texts{"the state files have a.com/gpu g0 for container app of pod default/a, but it "
                  "was created with a.com/gpu g1"});
  EXPECT_EQ(GpusNow("a"), Ids{"g1"});
  // The plugin's answer was for the other device.
  EXPECT_EQ(adoption_.next.devices.Find({"a", "app"}, kRefutedGpu)->response, "");
}

TEST_F(RefutedByMarks, TwoContainersHaveTheDevicesOfEachOther) {
  HasGpus("a", {"g0"});
  HasGpus("b", {"g1", "g2"});
  EXPECT_EQ(Refuted({WithGpus("a", {"g2"}), WithGpus("b", {"g0", "g1"})}).size(), 2U);
  EXPECT_EQ(GpusNow("a"), Ids{"g2"});
  EXPECT_EQ(GpusNow("b"), (Ids{"g0", "g1"}));
  EXPECT_EQ(adoption_.unknown.size(), 0U);
}

TEST_F(RefutedByMarks, DevicesOfWhatDoesNotRunGiveWay) {
  HasGpus("ended", {"g0", "g1"});
  HasGpus("also-ended", {"g2"});
  EXPECT_EQ(Refuted({WithGpus("b", {"g1"})}),
            Texts{"the state files have a.com/gpu g0 g1 for container app of pod ended, but "
                  "container app of pod default/b runs with a.com/gpu g1"});
  EXPECT_EQ(GpusNow("ended"), Ids());
  EXPECT_EQ(GpusNow("also-ended"), Ids{"g2"});
  EXPECT_EQ(GpusNow("b"), Ids{"g1"});
}

// Its mark has other resources only.
TEST_F(RefutedByMarks, DevicesOfOneThatRunsWithoutThemGiveWay) {
  HasGpus("a", {"g0"});
  HasMemory("a", 0, 1);
  EXPECT_EQ(Refuted({WithMemory("a", 0, 1), WithGpus("b", {"g0"})}).size(), 1U);
  EXPECT_EQ(GpusNow("a"), Ids());
  EXPECT_EQ(GpusNow("b"), Ids{"g0"});
  EXPECT_EQ(MemoryNow("a"), "0: 1");
}

TEST_F(RefutedByMarks, DevicesThatNoMarkContradictsStay) {
  HasGpus("a", {"g0"});
  EXPECT_EQ(Refuted({WithGpus("a", {"g0"})}), Texts());
  EXPECT_EQ(GpusNow("a"), Ids{"g0"});
  EXPECT_EQ(adoption_.next.devices.Find({"a", "app"}, kRefutedGpu)->response, "of the plugin");
  // Both have the mark of one device: the file decides.
  EXPECT_EQ(Refuted({WithGpus("a", {"g0"}), WithGpus("b", {"g0"})}), Texts());
  EXPECT_EQ(GpusNow("a"), Ids{"g0"});
  EXPECT_EQ(GpusNow("b"), Ids());
  EXPECT_EQ(adoption_.unknown.size(), 1U);
  // It runs, and no mark says with what.
  EXPECT_EQ(Refuted({Running("a"), WithGpus("b", {"g0"})}), Texts());
  EXPECT_EQ(GpusNow("a"), Ids{"g0"});
}

}  // namespace
}  // namespace alignd::admission
