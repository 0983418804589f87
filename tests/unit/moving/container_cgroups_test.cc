#include "moving/container_cgroups.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "edge/fake_tree.h"

namespace alignd::moving {
namespace {

using testing::FakeTree;

void WriteCpuset(const FakeTree& tree, const std::string& path, const std::string& cpus) {
  for (const char* const file :
       {"/cpuset.cpus", "/cpuset.cpus.effective", "/cpuset.effective_cpus"}) {
    tree.Write({path + file, cpus + "\n"});
  }
  for (const char* const file :
       {"/cpuset.mems", "/cpuset.mems.effective", "/cpuset.effective_mems"}) {
    tree.Write({path + file, "0\n"});
  }
}

cpumanager::CpuState Assigned() {
  cpumanager::CpuState state;
  state.default_set = *CpuSet::Parse("0,4-7");
  state.assignments["u-1"]["app"] = *CpuSet::Parse("1-2");
  state.assignments["u-1"]["log"] = *CpuSet::Parse("3");
  return state;
}

ContainerCpusets ReadOrFail(const FakeTree& tree) {
  const Result<ContainerCpusets> read = ContainerCpusets::Read(tree.root());
  EXPECT_TRUE(read.ok()) << read.error().Text();
  return read.ok() ? *read : ContainerCpusets{};
}

TEST(ContainerCgroups, AreFoundWithBothDriversAndVersions) {
  const FakeTree systemd;
  systemd.Write({"cgroup.controllers", "cpuset cpu\n"});
  WriteCpuset(systemd,
              "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-podu_1.slice/"
              "cri-containerd-aa.scope",
              "1-2");
  EXPECT_EQ(ReadOrFail(systemd).pods.at("u-1").begin()->second.ToString(), "1-2");
  const FakeTree cgroupfs;
  WriteCpuset(cgroupfs, "cpuset", "0-7");
  WriteCpuset(cgroupfs, "cpuset/kubepods/podu-1/aa", "1-2");
  WriteCpuset(cgroupfs, "cpuset/kubepods/podu-1/sandbox", "0-7");
  const ContainerCpusets version1 = ReadOrFail(cgroupfs);
  ASSERT_EQ(version1.pods.at("u-1").size(), 2U);
  // Nothing has set the sandbox's own: it has all CPUs.
  EXPECT_TRUE(FindMisplaced({}, version1, Assigned()).empty());
  EXPECT_FALSE(ContainerCpusets::Read("/no/such/cgroups").ok());
}

TEST(ContainerCgroups, ContainersThatRunOnSomethingElseAreNamed) {
  const auto with = [](const std::string& cpus) {
    ContainerCpusets running;
    running.pods["u-1"]["/a"] = *CpuSet::Parse(cpus);
    return running;
  };
  const cpumanager::CpuState state = Assigned();
  EXPECT_TRUE(FindMisplaced({}, with("1-2"), state).empty());
  EXPECT_TRUE(FindMisplaced({}, with("0,4-7"), state).empty());  // it shares
  EXPECT_EQ(FindMisplaced({}, with("1"), state).size(), 1U);
  EXPECT_EQ(FindMisplaced({}, with("1-7"), state).size(), 1U);
  // It had exclusive CPUs, and is in the shared pool now.
  const std::vector<std::string> lost = FindMisplaced(with("1-2"), with("0,4-7"), state);
  ASSERT_EQ(lost.size(), 1U);
  EXPECT_EQ(lost[0],
            "a container of pod u-1 (cgroup /a) runs on CPUs 0,4-7, and had the exclusive CPUs "
            "1-2");
  // The shared pool may change.
  EXPECT_TRUE(FindMisplaced(with("0,4-7"), with("0,4-6"), state).empty());
  cpumanager::CpuState whole = state;
  whole.pods["u-1"] = *CpuSet::Parse("1-3");
  EXPECT_TRUE(FindMisplaced({}, with("1"), whole).empty());
}

TEST(ContainerCgroups, AContainerOnAllCpusIsNoSandbox) {
  const FakeTree tree;
  WriteCpuset(tree, "cpuset", "0-7");
  WriteCpuset(tree, "cpuset/kubepods/podu-1/aa", "0-7");
  WriteCpuset(tree, "cpuset/kubepods/podu-1/crio-conmon-aa.scope", "0-7");
  EXPECT_TRUE(FindMisplaced({}, ReadOrFail(tree), Assigned()).empty());
  WriteCpuset(tree, "cpuset/kubepods/podu-1/sandbox", "0-7");
  EXPECT_EQ(FindMisplaced({}, ReadOrFail(tree), Assigned()),
            std::vector<std::string>{
                "a container of pod u-1 runs on all CPUs, and its pod is assigned CPUs 1-3"});
}

TEST(ContainerCgroups, ContainersOnCpusOfOthersAreNamed) {
  const auto with = [](const std::string& uid, const std::string& cpus) {
    ContainerCpusets running;
    running.pods[uid]["/a"] = *CpuSet::Parse(cpus);
    return running;
  };
  const cpumanager::CpuState state = Assigned();
  const CpuSet reserved = *CpuSet::Parse("0");
  cpumanager::CpuState two = state;
  two.default_set = *CpuSet::Parse("0,4-6");
  two.assignments["u-2"]["app"] = *CpuSet::Parse("7");
  // Its own CPUs are others, and it has none at all.
  EXPECT_EQ(FindMisplaced({}, with("u-2", "1-2"), two).size(), 1U);
  EXPECT_EQ(FindMisplaced({}, with("u-9", "1-2"), two).size(), 1U);
  // A container of the shared pool that was not moved yet.
  EXPECT_TRUE(FindMisplaced({}, with("u-9", "0-7"), two, reserved).empty());
  // The state does not know these exclusive CPUs.
  const std::vector<std::string> unknown = FindMisplaced({}, with("u-9", "5"), state, reserved);
  ASSERT_EQ(unknown.size(), 1U);
  EXPECT_EQ(
      unknown[0],
      "a container of pod u-9 (cgroup /a) runs on CPUs 5 alone, and its pod is assigned none");
  EXPECT_TRUE(FindMisplaced({}, with("u-9", "0,4-6"), state, reserved).empty());
  // strict-cpu-reservation: the shared pool has no reserved CPU either.
  EXPECT_TRUE(FindMisplaced({}, with("u-9", "5"), state, *CpuSet::Parse("3")).empty());
}

}  // namespace
}  // namespace alignd::moving
