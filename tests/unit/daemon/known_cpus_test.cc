// What alignd remembers of CPUs that are offline when it starts.
#include "daemon/known_cpus.h"

#include <gtest/gtest.h>

#include <string>

#include "core/machine_builder.h"
#include "edge/fake_tree.h"
#include "edge/machine_tree.h"

namespace alignd::daemon {
namespace {

class KnownCpus : public ::testing::Test {
 protected:
  KnownCpus() {
    testing::WriteMachine(machine_, "root", tree_);
    WriteBoot("first");
    tree_.Write({"state", std::initializer_list<testing::FakeEntry>{}});
    EXPECT_TRUE(SaveKnownCpus(machine_, Root(), State()).ok());
  }

  std::filesystem::path Root() const { return tree_.root() / "root"; }
  std::filesystem::path State() const { return tree_.root() / "state"; }
  void WriteBoot(const std::string& id) const {
    tree_.Write({"root/proc/sys/kernel/random/boot_id", id + "\n"});
  }
  // What alignd takes for the machine when sysfs shows only the other CPUs.
  Machine Without(const std::string& offline) const {
    return WithKnownCpus(WithoutCpus(machine_, *CpuSet::Parse(offline)), Root(), State());
  }

  const Machine machine_ = MakeMachine("socket:2 numa:1 core:2 thread:2");
  testing::FakeTree tree_;
};

TEST_F(KnownCpus, TheMachineIsTheSameWhicheverCpusAreOffline) {
  for (const char* const offline : {"0", "1", "2-3", "0,2,5", "7", "0-1"}) {
    EXPECT_EQ(Without(offline), machine_) << offline;
  }
}

TEST_F(KnownCpus, AfterAnotherBootOrOfAnotherMachineNothingIsKnown) {
  const Machine online = WithoutCpus(machine_, *CpuSet::Parse("7"));
  const Machine other =
      WithoutCpus(MakeMachine("socket:1 numa:2 core:4 thread:1"), *CpuSet::Parse("7"));
  EXPECT_EQ(WithKnownCpus(other, Root(), State()), other);
  WriteBoot("second");
  EXPECT_EQ(Without("7"), online);
  WriteBoot("first");
  EXPECT_EQ(Without("7"), machine_);
  std::filesystem::remove_all(Root() / "sys/devices/system/cpu/cpu7");  // it was removed
  EXPECT_EQ(Without("7"), online);
}

TEST_F(KnownCpus, AFileThatCannotBeReadCountsAsAbsent) {
  const Machine online = WithoutCpus(machine_, *CpuSet::Parse("7"));
  tree_.Write({"state/known_cpus", "first\n{}\n"});
  EXPECT_EQ(Without("7"), online);
  std::filesystem::remove(State() / "known_cpus");
  EXPECT_EQ(Without("7"), online);
}

TEST_F(KnownCpus, TheOfflineCpusAreThoseThatTheKernelDoesNotList) {
  tree_.Write({"root/sys/devices/system/cpu/online", "0-3,6-7\n"});
  const Result<CpuSet> offline = OfflineCpusOf(machine_, Root());
  ASSERT_TRUE(offline.ok());
  EXPECT_EQ(offline->ToString(), "4-5");
  std::filesystem::remove(Root() / "sys/devices/system/cpu/online");
  EXPECT_TRUE(OfflineCpusOf(machine_, Root())->empty());
  tree_.Write({"root/sys/devices/system/cpu/online", "0-\n"});
  EXPECT_FALSE(OfflineCpusOf(machine_, Root()).ok());
}

}  // namespace
}  // namespace alignd::daemon
