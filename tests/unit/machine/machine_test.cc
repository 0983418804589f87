#include "alignd/machine/machine.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace alignd {
namespace {

NumaNode Node(int id, std::vector<int> distances = {}) {
  return {.id = id, .memory_bytes = 1024, .hugepages = {}, .distances = std::move(distances)};
}

// Two sockets with two cores of two threads each, siblings far apart; a memory node without CPUs
// between the NUMA nodes; core ids that are unique but are no CPU numbers.
Machine TwoSockets() {
  Result<Machine> machine = Machine::Make(
      {
          {.cpu = 7, .core = 13, .socket = 1, .numa = 8, .uncore = 31},
          {.cpu = 6, .core = 12, .socket = 1, .numa = 8, .uncore = 31},
          {.cpu = 5, .core = 11, .socket = 0, .numa = 0, .uncore = 30},
          {.cpu = 4, .core = 10, .socket = 0, .numa = 0, .uncore = 30},
          {.cpu = 3, .core = 13, .socket = 1, .numa = 8, .uncore = 31},
          {.cpu = 2, .core = 12, .socket = 1, .numa = 8, .uncore = 31},
          {.cpu = 1, .core = 11, .socket = 0, .numa = 0, .uncore = 30},
          {.cpu = 0, .core = 10, .socket = 0, .numa = 0, .uncore = 30},
      },
      {Node(8, {20, 30, 10}), Node(3, {15, 10, 30}), Node(0, {10, 15, 20})});
  EXPECT_TRUE(machine.ok()) << machine.error().message;
  return std::move(machine).value();
}

TEST(Machine, NamesCoresByTheirLowestCpu) {
  const Machine machine = TwoSockets();
  EXPECT_EQ(machine.cores(),
            (std::vector<CpuGroup>{{0, {0, 4}}, {1, {1, 5}}, {2, {2, 6}}, {3, {3, 7}}}));
  EXPECT_EQ(machine.Row(6), (Cpu{.cpu = 6, .core = 2, .socket = 1, .numa = 8, .uncore = 31}));
}

TEST(Machine, GroupsCpusWhateverTheOrderOfTheRows) {
  const Machine machine = TwoSockets();
  EXPECT_EQ(machine.cpus().ToString(), "0-7");
  EXPECT_EQ(machine.sockets(), (std::vector<CpuGroup>{{0, {0, 1, 4, 5}}, {1, {2, 3, 6, 7}}}));
  EXPECT_EQ(machine.uncores(), (std::vector<CpuGroup>{{30, {0, 1, 4, 5}}, {31, {2, 3, 6, 7}}}));
  EXPECT_EQ(machine.cpus_per_core(), 2);
  EXPECT_EQ(machine.cpus_per_socket(), 4);
  EXPECT_EQ(machine.cpus_per_uncore(), 4);
}

TEST(Machine, KnowsWhichUnitsShareCpus) {
  const Machine machine = TwoSockets();
  EXPECT_EQ(machine.numa_groups(), (std::vector<CpuGroup>{{0, {0, 1, 4, 5}}, {2, {2, 3, 6, 7}}}));
  EXPECT_EQ(machine.cores_in_numa(), (Nesting{{0, 1}, {2, 3}}));
  EXPECT_EQ(machine.cores_in_sockets(), (Nesting{{0, 1}, {2, 3}}));
  EXPECT_EQ(machine.sockets_in_numa(), (Nesting{{0}, {1}}));

  // One socket of two NUMA nodes, whose only uncore cache and middle core lie in both.
  const Result<Machine> crossing = Machine::Make({{.cpu = 0, .core = 0, .numa = 0},
                                                  {.cpu = 1, .core = 1, .numa = 0},
                                                  {.cpu = 2, .core = 1, .numa = 1},
                                                  {.cpu = 3, .core = 3, .numa = 1}},
                                                 {Node(0), Node(1)});
  ASSERT_TRUE(crossing.ok()) << crossing.error().message;
  EXPECT_EQ(crossing->cores_in_numa(), (Nesting{{0, 1}, {1, 2}}));
  EXPECT_EQ(crossing->uncores_in_numa(), (Nesting{{0}, {0}}));
  EXPECT_EQ(crossing->numa_in_sockets(), (Nesting{{0, 1}}));
  EXPECT_EQ(crossing->sockets_in_numa(), (Nesting{{0}, {0}}));
}

TEST(Machine, AddressesNumaNodesByPosition) {
  const Machine machine = TwoSockets();
  EXPECT_EQ(machine.numa_count(), 3);
  EXPECT_EQ(machine.NumaId(1), 3);
  EXPECT_EQ(machine.NumaPosition(8), 2);
  EXPECT_EQ(machine.NumaPosition(1), std::nullopt);
  EXPECT_EQ(machine.NumaPosition(int64_t{1} << 40), std::nullopt);
  EXPECT_EQ(machine.CpusInNuma(0).ToString(), "0-1,4-5");
  EXPECT_EQ(machine.CpusInNuma(1).ToString(), "");
  EXPECT_EQ(machine.CpusInNuma(machine.all_numa()), machine.cpus());
  EXPECT_EQ(machine.NumaOf(7), 2);
  EXPECT_EQ(machine.NumaIds(machine.numa_with_cpus()), (std::vector<int>{0, 8}));
  EXPECT_EQ(machine.NumaIds(machine.NumaOf(CpuSet{1, 2})), (std::vector<int>{0, 8}));
  EXPECT_EQ(machine.NumaIds(machine.MaskOfIds({8, -1, 7, 3})), (std::vector<int>{3, 8}));
}

TEST(Machine, ReadsADistanceRowOfAllNodesByPosition) {
  const Machine machine = TwoSockets();
  EXPECT_EQ(machine.Distance(0, 2), 20);
  EXPECT_EQ(machine.Distance(2, 0), 20);
  EXPECT_EQ(machine.Distance(1, 1), 10);
}

TEST(Machine, ReadsALongerDistanceRowByNodeId) {
  const Cpu cpu{.cpu = 0, .core = 0, .socket = 0, .numa = 1, .uncore = 0};
  const Result<Machine> machine = Machine::Make({cpu}, {Node(1, {21, 10})});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->Distance(0, 0), 10);
}

TEST(Machine, CallsAMissingDistanceUnknown) {
  const Cpu cpu{.cpu = 0, .core = 0, .socket = 0, .numa = 0, .uncore = 0};
  const Result<Machine> machine = Machine::Make({cpu}, {Node(0), Node(5, {20, 30, 10})});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->Distance(0, 1), Machine::kUnknownDistance);
  EXPECT_EQ(machine->Distance(1, 1), Machine::kUnknownDistance);  // id 5 is beyond the row
}

TEST(Machine, DividesOverTheWholeMachineWhereCoresDiffer) {
  // A core of two threads, and two of one.
  std::vector<Cpu> rows;
  for (const int cpu : {0, 1, 2, 3}) {
    rows.push_back({.cpu = cpu, .core = cpu < 2 ? 0 : cpu, .socket = 0, .numa = 0, .uncore = 0});
  }
  const Result<Machine> machine = Machine::Make(rows, {Node(0)});
  ASSERT_TRUE(machine.ok()) << machine.error().message;
  EXPECT_EQ(machine->cpus_per_core(), 1);
}

TEST(Machine, RefusesWhatCannotBe) {
  const auto cpu = [](int number, int core, int socket, int numa) {
    return Cpu{.cpu = number, .core = core, .socket = socket, .numa = numa, .uncore = 0};
  };
  std::vector<NumaNode> too_many;
  for (int id = 0; id <= NumaMask::kMaxNodes; ++id) too_many.push_back(Node(id));
  struct Case {
    std::vector<Cpu> cpus;
    std::vector<NumaNode> numa;
    std::string message;
  };
  const std::vector<Case> cases = {
      {{}, {Node(0)}, "the machine has no CPU"},
      {{cpu(0, 0, 0, 0)}, {}, "the machine has no NUMA node"},
      {{cpu(0, 0, 0, 0)}, too_many, "the machine has 65 NUMA nodes; at most 64 are supported"},
      {{cpu(-1, 0, 0, 0)}, {Node(0)}, "CPU numbers must be 0 to 65535"},
      {{cpu(65536, 0, 0, 0)}, {Node(0)}, "CPU numbers must be 0 to 65535"},
      {{cpu(3, 0, 0, 0), cpu(3, 1, 0, 0)}, {Node(0)}, "CPU 3 occurs twice"},
      {{cpu(0, 0, 0, 0)}, {Node(2), Node(0), Node(2)}, "NUMA node 2 occurs twice"},
      {{cpu(0, 0, 0, 0)},
       {Node(0, {65'536})},
       "NUMA node 0 has a distance of 65536; distances are 0 to 65535"},
      {{cpu(0, 0, 0, 0), cpu(1, 0, 1, 0)}, {Node(0)}, "CPUs 0 and 1 share a core but not a socket"},
      {{cpu(0, 0, 0, 1)}, {Node(0)}, "CPU 0 lies on NUMA node 1, which the machine does not have"},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.message);
    const Result<Machine> machine = Machine::Make(c.cpus, c.numa);
    ASSERT_FALSE(machine.ok());
    EXPECT_EQ(machine.error(), (Error{ErrorCode::kInvalidArgument, c.message}));
  }
}

}  // namespace
}  // namespace alignd
