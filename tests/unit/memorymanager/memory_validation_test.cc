#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "alignd/memorymanager/fit_to_machine.h"
#include "core/memory_nodes.h"

namespace alignd::memorymanager {
namespace {

Machine TwoNodes() {
  std::vector<NumaNode> nodes = PlainNumaNodes(2, 4 * kGi);
  nodes[1].hugepages[kGi] = 3;
  return MachineOf(std::move(nodes));
}

TEST(MemoryPolicy, ReservationsThatAreRefused) {
  KubeletConfig unequal = Reserving({{0, "1Gi"}});
  unequal.system_reserved = Amounts({{"memory", "2048Mi"}});
  KubeletConfig threshold = Reserving({{0, "52180501"}});
  threshold.eviction_hard_memory = "100Mi";
  threshold.system_reserved = {};
  KubeletConfig pages = Reserving({{0, "1Gi"}});
  pages.reserved_memory[0].limits["hugepages-1Gi"] = Quantity(5);
  const struct {
    const char* name;
    KubeletConfig config;
    const char* error;
  } cases[] = {
      {"nothing reserved", Reserving({}),
       "[memorymanager] you should specify the system reserved memory"},
      {"another sum than the node's", unequal,
       "the total amount \"1Gi\" of type \"memory\" is not equal to the value \"2Gi\" determined "
       "by Node Allocatable feature"},
      {"the eviction threshold counts", threshold,
       "the total amount \"52180501\" of type \"memory\" is not equal to the value \"100Mi\" "
       "determined by Node Allocatable feature"},
      {"huge pages cannot be reserved", pages,
       "the total amount \"5\" of type \"hugepages-1Gi\" is not equal to the value \"0\" "
       "determined by Node Allocatable feature"},
      {"a node that is not there", Reserving({{7, "1Gi"}}),
       "the reserved memory configuration references a NUMA node 7 that does not exist on this "
       "machine"},
      // The kubelet subtracts without a check and has 16 exabytes of free memory.
      {"more than the node has", Reserving({{0, "5Gi"}}),
       "NUMA node 0 has 4294967296 bytes of type \"memory\", less than the 5368709120 bytes "
       "reserved on it"},
      {"more than huge pages leave", Reserving({{1, "2Gi"}}),
       "NUMA node 1 has 1073741824 bytes of type \"memory\", less than the 2147483648 bytes "
       "reserved on it"},
  };
  for (const auto& c : cases) {
    const Result<StaticPolicy> policy = MakeStaticPolicy(TwoNodes(), c.config);
    ASSERT_FALSE(policy.ok()) << c.name;
    EXPECT_EQ(policy.error().message, c.error) << c.name;
    EXPECT_EQ(policy.error().code, ErrorCode::kInvalidArgument) << c.name;
  }
}

TEST(MemoryPolicy, MoreHugePagesThanMemoryIsNoMachine) {
  std::vector<NumaNode> nodes = PlainNumaNodes(1, kGi);
  nodes[0].hugepages[kGi] = 2;
  const Result<StaticPolicy> policy =
      MakeStaticPolicy(MachineOf(std::move(nodes)), Reserving({{0, "1Mi"}}));
  ASSERT_FALSE(policy.ok());
  EXPECT_EQ(policy.error().message,
            "NUMA node 0 has more huge pages (2 of type \"hugepages-1Gi\") than its 1073741824 "
            "bytes of memory can hold");
}

TEST(MemoryPolicy, InitialStateIsTheMachineWithoutReservationAndHugePages) {
  const MemoryNode node = MemoryNode::Make(TwoNodes(), Reserving({{0, "1Gi"}, {1, "512Mi"}}));
  const MemoryTable first{.total = 4 * kGi,
                          .system_reserved = kGi,
                          .allocatable = 3 * kGi,
                          .reserved = 0,
                          .free = 3 * kGi};
  const MemoryTable second{.total = 4 * kGi,
                           .system_reserved = kGi / 2,
                           .allocatable = kGi / 2,
                           .reserved = 0,
                           .free = kGi / 2};
  const MemoryTable pages{.total = 3 * kGi,
                          .system_reserved = 0,
                          .allocatable = 3 * kGi,
                          .reserved = 0,
                          .free = 3 * kGi};
  EXPECT_EQ(node.state.machine.at(0).tables.at("memory"), first);
  EXPECT_EQ(node.state.machine.at(1).tables.at("memory"), second);
  EXPECT_EQ(node.state.machine.at(1).tables.at("hugepages-1Gi"), pages);
  EXPECT_EQ(node.state.machine.at(1).cells, std::vector<int>{1});
  EXPECT_TRUE(node.Broken().empty());
}

TEST(MemoryTypes, AreNamedByPageSize) {
  EXPECT_EQ(HugePageType(uint64_t{64} << 10), "hugepages-64Ki");
  EXPECT_EQ(HugePageType(uint64_t{2} << 20), "hugepages-2Mi");
  EXPECT_EQ(HugePageType(uint64_t{512} << 20), "hugepages-512Mi");
  EXPECT_EQ(HugePageType(uint64_t{16} << 30), "hugepages-16Gi");
}

// A node with one pod on node 2 and one on the group {0,1}.
MemoryNode InUse() {
  MemoryNode node = ThreeNodes();
  EXPECT_EQ(
      node.Give(GuaranteedPod("one", {App("app", {{"memory", "2Gi"}})}), "app", OnNodes(0b100)),
      "");
  EXPECT_EQ(
      node.Give(GuaranteedPod("two", {App("app", {{"memory", "12Gi"}})}), "app", OnNodes(0b011)),
      "");
  return node;
}

constexpr char kDifferent[] =
    "[memorymanager] the expected machine state is different from the real one";

TEST(MemoryValidation, TakesWhatWasSaved) {
  const MemoryNode node = InUse();
  EXPECT_TRUE(ValidateLoaded(node.machine, node.policy, node.state).ok());
  EXPECT_TRUE(ValidateLoaded(node.machine, node.policy, MemoryState{}).ok());

  // Inside a group only the sum matters.
  MemoryState shifted = node.state;
  MemoryTable& first = shifted.machine[0].tables["memory"];
  MemoryTable& second = shifted.machine[1].tables["memory"];
  first.reserved -= kGi;
  first.free += kGi;
  second.reserved += kGi;
  second.free -= kGi;
  EXPECT_TRUE(ValidateLoaded(node.machine, node.policy, shifted).ok());
}

TEST(MemoryValidation, RefusesWhatDoesNotFitTheMachine) {
  const struct {
    const char* name;
    std::function<void(MemoryState&)> damage;
    std::string error;
  } cases[] = {
      {"assignments without a machine", [](MemoryState& s) { s.machine.clear(); },
       "[memorymanager] machine state can not be empty when it has memory assignments"},
      {"a node that is not there",
       [](MemoryState& s) { s.assignments["one"]["app"][0].numa_affinity = {7}; },
       "[memorymanager] (pod: one, container: app) the memory assignment uses the NUMA that does "
       "not exist"},
      {"a type that is not there",
       [](MemoryState& s) { s.assignments["one"]["app"][0].type = "hugepages-1Gi"; },
       "[memorymanager] (pod: one, container: app) the memory assignment uses memory resource "
       "that does not exist"},
      {"more than there is",
       [](MemoryState& s) { s.assignments["one"]["app"][0].size = 100 * kGi; },
       "[memorymanager] (pod: one, container: app) is assigned more memory of type \"memory\" than "
       "its "
       "NUMA nodes have"},
      {"another size", [](MemoryState& s) { s.assignments["one"]["app"][0].size += 1; },
       kDifferent},
      {"a lost assignment", [](MemoryState& s) { s.assignments.erase("one"); }, kDifferent},
      {"a node less", [](MemoryState& s) { s.machine.erase(2); }, kDifferent},
      {"another reservation",
       [](MemoryState& s) { s.machine[2].tables["memory"].system_reserved += 1; }, kDifferent},
      {"another capacity", [](MemoryState& s) { s.machine[2].tables["memory"].total += 1; },
       kDifferent},
      {"another count", [](MemoryState& s) { ++s.machine[2].number_of_assignments; }, kDifferent},
      {"another group", [](MemoryState& s) { s.machine[1].cells = {1}; }, kDifferent},
      {"another type", [](MemoryState& s) { s.machine[1].tables["hugepages-1Gi"] = {}; },
       kDifferent},
      {"memory out of nowhere", [](MemoryState& s) { ++s.machine[2].tables["memory"].free; },
       kDifferent},
      {"memory inside a group out of nowhere",
       [](MemoryState& s) { ++s.machine[0].tables["memory"].reserved; }, kDifferent},
  };
  for (const auto& c : cases) {
    MemoryNode node = InUse();
    c.damage(node.state);
    const Result<Done> checked = ValidateLoaded(node.machine, node.policy, node.state);
    ASSERT_FALSE(checked.ok()) << c.name;
    EXPECT_EQ(checked.error().code, ErrorCode::kCorrupt) << c.name;
    EXPECT_EQ(checked.error().message, c.error) << c.name;
    EXPECT_FALSE(c.error == kDifferent && node.Broken().empty()) << c.name;
  }
}

// After a reboot, each node has some MB more or less memory.
TEST(MemoryValidation, FitsWhatWasSavedToOtherNodeSizes) {
  const MemoryNode node = InUse();
  for (const int64_t change : {int64_t{-5} << 20, int64_t{3} << 20, int64_t{1}}) {
    MemoryState saved = node.state;  // as on a machine with other sizes
    for (auto& [id, memory] : saved.machine) {
      MemoryTable& table = memory.tables.at("memory");
      const auto by = static_cast<uint64_t>(change * (id + 1));
      table.total += by;
      table.allocatable += by;
      table.free += by;
    }
    ASSERT_FALSE(ValidateLoaded(node.machine, node.policy, saved).ok());
    const auto fitted = FitToMachine(node.machine, node.policy, saved);
    ASSERT_TRUE(fitted);
    EXPECT_TRUE(ValidateLoaded(node.machine, node.policy, *fitted).ok());
    EXPECT_EQ(fitted->assignments, node.state.assignments);
  }
}

TEST(MemoryValidation, FitsNothingElse) {
  const struct {
    const char* name;
    std::function<void(MemoryState&)> damage;
  } cases[] = {
      {"a lost assignment", [](MemoryState& s) { s.assignments.erase("one"); }},
      {"another size", [](MemoryState& s) { s.assignments["one"]["app"][0].size += 1; }},
      {"a node less", [](MemoryState& s) { s.machine.erase(2); }},
      {"another reservation",
       [](MemoryState& s) { s.machine[2].tables["memory"].system_reserved += 1; }},
      {"another count", [](MemoryState& s) { ++s.machine[2].number_of_assignments; }},
      {"another group", [](MemoryState& s) { s.machine[1].cells = {1}; }},
      {"another type", [](MemoryState& s) { s.machine[1].tables["hugepages-1Gi"] = {}; }},
      {"memory out of nowhere", [](MemoryState& s) { ++s.machine[2].tables["memory"].free; }},
      {"a total of its own", [](MemoryState& s) { ++s.machine[2].tables["memory"].total; }},
      {"nothing saved", [](MemoryState& s) { s = {}; }},
      {"more than there is now",
       [](MemoryState& s) {
         Block& block = s.assignments["one"]["app"][0];
         MemoryTable& table = s.machine[block.numa_affinity[0]].tables["memory"];
         block.size += 100 * kGi;
         table.total += 100 * kGi;
         table.allocatable += 100 * kGi;
         table.reserved += 100 * kGi;
       }},
  };
  for (const auto& c : cases) {
    MemoryNode node = InUse();
    for (auto& [id, memory] :
         node.state.machine) {  // and another size, which alone would be accepted
      MemoryTable& table = memory.tables.at("memory");
      table.total += kGi;
      table.allocatable += kGi;
      table.free += kGi;
    }
    c.damage(node.state);
    EXPECT_FALSE(FitToMachine(node.machine, node.policy, node.state)) << c.name;
  }
}

// An inconsistent group as the kubelet makes it. The kubelet's own check accepts it or not, at
// random.
TEST(MemoryValidation, RefusesATornGroup) {
  MemoryNode node = InUse();
  node.state.assignments["zwei"]["app"] = {{.numa_affinity = {1}, .type = "memory", .size = kGi}};
  NumaMemory& torn = node.state.machine[1];
  ++torn.number_of_assignments;
  torn.cells = {1};
  torn.tables["memory"].reserved += kGi;
  torn.tables["memory"].free -= kGi;
  const Result<Done> checked = ValidateLoaded(node.machine, node.policy, node.state);
  ASSERT_FALSE(checked.ok());
  EXPECT_EQ(checked.error().message,
            "[memorymanager] NUMA node 0 and NUMA node 1 disagree about the group they are in");
}

}  // namespace
}  // namespace alignd::memorymanager
