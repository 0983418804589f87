#include "core/machine_builder.h"

#include <gtest/gtest.h>

namespace alignd {
namespace {

TEST(MachineBuilder, CountsEachLevelPerParent) {
  const Machine machine = MakeMachine("socket:2 numa:2 uncore:1 core:3 thread:2");
  EXPECT_EQ(machine.cpus().ToString(), "0-23");
  EXPECT_EQ(machine.sockets().size(), 2U);
  EXPECT_EQ(machine.numa_count(), 4);
  EXPECT_EQ(machine.uncores().size(), 4U);
  EXPECT_EQ(machine.CpusInNuma(1).ToString(), "6-11");
  EXPECT_EQ(machine.Row(7).core, 6);
}

TEST(MachineBuilder, InterleavesThreads) {
  const Machine machine = MakeMachine("socket:2 numa:1 core:2 thread:2 smt=interleaved");
  EXPECT_EQ(machine.CpusInNuma(0).ToString(), "0-1,4-5");
  EXPECT_EQ(machine.Row(6).core, 2);
}

TEST(MachineBuilder, NestsSocketsInNumaNodes) {
  const Machine machine = MakeMachine("numa:1 socket:2 core:2 cpuless=1 memory-gib=4");
  EXPECT_EQ(machine.sockets().size(), 2U);
  EXPECT_EQ(machine.uncores().size(), 2U);
  EXPECT_EQ(machine.numa_count(), 2);
  EXPECT_EQ(machine.numa_with_cpus(), NumaMask::Of(0));
  EXPECT_EQ(machine.numa()[1].memory_bytes, uint64_t{4} << 30);
}

TEST(MachineBuilder, TakesCpusOfflineAndRenamesNodes) {
  const Machine machine = MakeMachine("socket:2 numa:1 core:2 thread:2");
  EXPECT_EQ(WithoutCpus(machine, Cpus("0,5")).cpus().ToString(), "1-4,6-7");
  EXPECT_EQ(WithoutCpus(machine, Cpus("0")).Row(1).core, 1);
  const Machine renamed = WithNumaIds(machine, {0, 250});
  EXPECT_EQ(renamed.NumaId(1), 250);
  EXPECT_EQ(renamed.CpusInNuma(1).ToString(), "4-7");
}

}  // namespace
}  // namespace alignd
