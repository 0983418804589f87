#include "moving/container_cgroups.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "edge/fake_tree.h"

namespace alignd::moving {
namespace {

using testing::FakeTree;

// `mems`: cpuset.mems; empty: as the one above, which has nodes 0-1.
void WriteCpuset(const FakeTree& tree, const std::string& path, const std::string& cpus,
                 const std::string& mems = "0") {
  for (const char* const file :
       {"/cpuset.cpus", "/cpuset.cpus.effective", "/cpuset.effective_cpus"}) {
    tree.Write({path + file, cpus + "\n"});
  }
  tree.Write({path + "/cpuset.mems", mems + "\n"});
  for (const char* const file : {"/cpuset.mems.effective", "/cpuset.effective_mems"}) {
    tree.Write({path + file, (mems.empty() ? "0-1" : mems) + "\n"});
  }
}

admission::NodeState Assigned() {
  admission::NodeState state;
  state.cpu.default_set = *CpuSet::Parse("0,4-7");
  state.cpu.assignments["u-1"]["app"] = *CpuSet::Parse("1-2");
  state.cpu.assignments["u-1"]["log"] = *CpuSet::Parse("3");
  return state;
}

// The memory manager's part as well: app has node 1, log has node 0.
admission::NodeState AssignedWithMemory() {
  admission::NodeState state = Assigned();
  state.memory.machine[0] = state.memory.machine[1] = {};
  state.memory.assignments["u-1"]["app"] = {{{1}, "hugepages-2Mi", 2}, {{1}, "memory", 64}};
  state.memory.assignments["u-1"]["log"] = {{{0}, "memory", 64}};
  return state;
}

std::vector<std::string> MisplacedIn(const FakeTree& tree, const admission::NodeState& state) {
  const Result<ContainerCpusets> read = ContainerCpusets::Read(tree.root());
  EXPECT_TRUE(read.ok()) << read.error().Text();
  return read.ok() ? FindMisplaced({}, *read, state) : std::vector<std::string>{"unreadable"};
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
  EXPECT_EQ(ReadOrFail(systemd).pods.at("u-1").begin()->second.cpus.ToString(), "1-2");
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
    running.pods["u-1"]["/a"].cpus = *CpuSet::Parse(cpus);
    return running;
  };
  const admission::NodeState state = Assigned();
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
  admission::NodeState whole = state;
  whole.cpu.pods["u-1"] = *CpuSet::Parse("1-3");
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
                "a container of pod u-1 (one of the cgroups /kubepods/podu-1/aa, "
                "/kubepods/podu-1/sandbox) runs on all CPUs, and its pod is assigned CPUs 1-3"});
}

TEST(ContainerCgroups, ContainersOnCpusOfOthersAreNamed) {
  const auto with = [](const std::string& uid, const std::string& cpus) {
    ContainerCpusets running;
    running.pods[uid]["/a"].cpus = *CpuSet::Parse(cpus);
    return running;
  };
  const admission::NodeState state = Assigned();
  const CpuSet reserved = *CpuSet::Parse("0");
  admission::NodeState two = state;
  two.cpu.default_set = *CpuSet::Parse("0,4-6");
  two.cpu.assignments["u-2"]["app"] = *CpuSet::Parse("7");
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

// Both versions: a sandbox, and a container on the CPUs of `app` with these memory nodes.
std::vector<FakeTree> TreesWithMemory(const std::string& cpus, const std::string& mems) {
  std::vector<FakeTree> trees(2);
  trees[0].Write({"cgroup.controllers", "cpuset cpu\n"});
  WriteCpuset(trees[0], "kubepods/podu-1", "", "");
  WriteCpuset(trees[0], "kubepods/podu-1/aa", cpus, mems);
  WriteCpuset(trees[0], "kubepods/podu-1/sandbox", "", "");
  // Version 1 has no empty file: a new cgroup has what the one above has.
  WriteCpuset(trees[1], "cpuset", "0-7", "0-1");
  WriteCpuset(trees[1], "cpuset/kubepods/podu-1", "0-7", "0-1");
  WriteCpuset(trees[1], "cpuset/kubepods/podu-1/aa", cpus, mems.empty() ? "0-1" : mems);
  WriteCpuset(trees[1], "cpuset/kubepods/podu-1/sandbox", "0-7", "0-1");
  return trees;
}

TEST(ContainerCgroups, ContainersWithOtherMemoryNodesAreNamedWithBothSides) {
  const admission::NodeState state = AssignedWithMemory();
  for (const FakeTree& tree : TreesWithMemory("1-2", "1")) {
    EXPECT_EQ(MisplacedIn(tree, state), std::vector<std::string>());
  }
  const std::string assigned = ", and container app is assigned memory of NUMA nodes 1";
  // Node 0 is that of the other container of the pod: the CPUs say which one this is.
  for (const std::string mems : {"0", "0-1", ""}) {
    for (const FakeTree& tree : TreesWithMemory("1-2", mems)) {
      const std::vector<std::string> misplaced = MisplacedIn(tree, state);
      ASSERT_EQ(misplaced.size(), 1U) << mems;
      EXPECT_TRUE(misplaced[0].ends_with(" may use memory of NUMA nodes " +
                                         (mems.empty() ? "0-1" : mems) + assigned))
          << misplaced[0];
      EXPECT_TRUE(misplaced[0].starts_with("a container of pod u-1 (cgroup /kubepods/podu-1/aa)"))
          << misplaced[0];
    }
  }
  // The state has CPUs for it, and no memory.
  admission::NodeState without = state;
  without.memory.assignments.erase("u-1");
  for (const FakeTree& tree : TreesWithMemory("1-2", "1")) {
    const std::vector<std::string> misplaced = MisplacedIn(tree, without);
    ASSERT_EQ(misplaced.size(), 1U);
    EXPECT_TRUE(misplaced[0].ends_with(
        " may use memory of NUMA nodes 1, and container app is assigned no memory"))
        << misplaced[0];
  }
  for (const FakeTree& tree : TreesWithMemory("1-2", "")) {
    EXPECT_EQ(MisplacedIn(tree, without), std::vector<std::string>());
  }
}

// A Guaranteed container that requests a part of a CPU has memory of its own, and shared CPUs.
TEST(ContainerCgroups, TheMemoryNodesOfContainersInTheSharedPoolAreCompared) {
  admission::NodeState state = AssignedWithMemory();
  state.cpu.assignments.erase("u-1");
  state.cpu.default_set = *CpuSet::Parse("0-7");
  for (const std::string mems : {"0", "1"}) {
    for (const FakeTree& tree : TreesWithMemory("0-6", mems)) {
      EXPECT_EQ(MisplacedIn(tree, state), std::vector<std::string>()) << mems;
    }
  }
  for (const FakeTree& tree : TreesWithMemory("0-6", "2")) {
    const std::vector<std::string> misplaced = MisplacedIn(tree, state);
    ASSERT_EQ(misplaced.size(), 1U);
    EXPECT_TRUE(misplaced[0].ends_with(
        " may use memory of NUMA nodes 2, and its pod is assigned memory of NUMA nodes 0-1: if "
        "another program has set cpuset.mems of the cgroup, set it back"))
        << misplaced[0];
  }
  // No part of the state has what this container has: it would be assigned to others.
  admission::NodeState none = state;
  none.memory.assignments.erase("u-1");
  for (const FakeTree& tree : TreesWithMemory("0-6", "1")) {
    const std::vector<std::string> misplaced = MisplacedIn(tree, none);
    ASSERT_EQ(misplaced.size(), 1U);
    EXPECT_TRUE(misplaced[0].ends_with(
        " may use memory of NUMA nodes 1, and its pod is assigned no memory: if another program "
        "has set cpuset.mems of the cgroup, set it back"))
        << misplaced[0];
  }
  // Without a state of the memory manager, nothing is known about memory.
  none.memory.machine.clear();
  for (const FakeTree& tree : TreesWithMemory("0-6", "1")) {
    EXPECT_EQ(MisplacedIn(tree, none), std::vector<std::string>());
  }
}

TEST(ContainerCgroups, OneCgroupWithoutMemoryNodesIsTheSandbox) {
  admission::NodeState state = AssignedWithMemory();
  state.cpu.assignments.erase("u-1");
  state.memory.assignments["u-1"].erase("log");
  for (const FakeTree& tree : TreesWithMemory("0-6", "")) {  // the sandbox, and the container
    EXPECT_EQ(MisplacedIn(tree, state),
              std::vector<std::string>{
                  "a container of pod u-1 (one of the cgroups /kubepods/podu-1/aa, "
                  "/kubepods/podu-1/sandbox) may use memory of all NUMA nodes, and its pod is "
                  "assigned memory of NUMA nodes 1"});
  }
  // A container that was created before the memory manager's policy was static.
  const std::vector<FakeTree> trees = TreesWithMemory("0-6", "1");
  WriteCpuset(trees[0], "kubepods/podu-1/older", "0-6", "");
  WriteCpuset(trees[1], "cpuset/kubepods/podu-1/older", "0-6", "0-1");
  for (const FakeTree& tree : trees) {
    EXPECT_EQ(MisplacedIn(tree, state), std::vector<std::string>());
  }
}

// The memory limits of a container and of the sandbox, as both versions write them.
void WriteLimits(const std::vector<FakeTree>& trees, const std::string& name, bool is_limited) {
  const std::string path = "kubepods/podu-1/" + name;
  trees[0].Write({path + "/memory.max", is_limited ? "67108864\n" : "max\n"});
  trees[1].Write({"memory/" + path + "/memory.limit_in_bytes",
                  is_limited ? "67108864\n" : "9223372036854771712\n"});
}

// `kubectl debug` while the container that holds memory has ended, and waits for its restart.
TEST(ContainerCgroups, AnEphemeralContainerIsNotTheOneThatHoldsMemory) {
  admission::NodeState state = AssignedWithMemory();
  state.cpu.assignments.erase("u-1");
  state.memory.assignments["u-1"].erase("log");
  const std::vector<FakeTree> trees = TreesWithMemory("0-6", "");
  WriteLimits(trees, "sandbox", false);
  WriteLimits(trees, "aa", false);
  for (const FakeTree& tree : trees) {
    EXPECT_EQ(MisplacedIn(tree, state), std::vector<std::string>());
  }
  WriteLimits(trees, "aa", true);  // the container itself
  for (const FakeTree& tree : trees) EXPECT_EQ(MisplacedIn(tree, state).size(), 1U);
  WriteLimits(trees, "aa", false);
  state.memory.pods["u-1"] = {{{1}, "memory", 128}};  // its containers need no limit
  state.memory.assignments["u-1"] = {{"app", {}}};
  for (const FakeTree& tree : trees) EXPECT_EQ(MisplacedIn(tree, state).size(), 1U);
}

TEST(ContainerCgroups, MemoryNodesThatAnotherProgramHasSetAreANote) {
  admission::NodeState state = AssignedWithMemory();
  state.cpu.assignments.erase("u-1");
  state.memory.assignments.erase("u-1");
  const auto expect = [&state](const FakeTree& tree, const std::string& path) {
    EXPECT_EQ(MisplacedIn(tree, state), std::vector<std::string>());
    EXPECT_EQ(FindNarrowedByOthers(ReadOrFail(tree), state),
              std::vector<std::string>{
                  "a container of pod u-1 (cgroup " + path +
                  ") may use memory of NUMA nodes 1, which another program has set: the container "
                  "is assigned no memory"});
  };
  const std::vector<FakeTree> trees = TreesWithMemory("0-6", "1");
  WriteLimits(trees, "aa", true);  // it may have held memory that the state has lost
  for (const FakeTree& tree : trees) {
    EXPECT_EQ(MisplacedIn(tree, state).size(), 1U);
    EXPECT_TRUE(FindNarrowedByOthers(ReadOrFail(tree), state).empty());
  }
  WriteLimits(trees, "aa", false);
  for (const FakeTree& tree : trees) expect(tree, "/kubepods/podu-1/aa");
  const FakeTree burstable;
  burstable.Write({"cgroup.controllers", "cpuset cpu\n"});
  WriteCpuset(burstable, "kubepods/burstable/podu-1", "", "");
  WriteCpuset(burstable, "kubepods/burstable/podu-1/aa", "0-6", "1");
  burstable.Write({"kubepods/burstable/podu-1/aa/memory.max", "67108864\n"});
  expect(burstable, "/kubepods/burstable/podu-1/aa");
}

TEST(ContainerCgroups, MemoryNodesThatChangeMeanwhileAreNamed) {
  const admission::NodeState state = AssignedWithMemory();
  const auto with = [](const char* nodes) {
    ContainerCpusets running;
    running.pods["u-1"]["/a"] = {*CpuSet::Parse("0,4-7"), *CpuSet::Parse(nodes), true};
    return running;
  };
  EXPECT_TRUE(FindMisplaced(with("1"), with("1"), state).empty());
  EXPECT_EQ(FindMisplaced(with("1"), with("0"), state),
            std::vector<std::string>{"a container of pod u-1 (cgroup /a) may use memory of NUMA "
                                     "nodes 0, and had NUMA nodes 1"});
  // The pod's memory is assigned as a whole, and its containers have parts of it.
  admission::NodeState whole = state;
  whole.memory.assignments["u-1"] = {{"app", {}}};
  whole.memory.pods["u-1"] = {{{0, 1}, "memory", 128}};
  EXPECT_TRUE(FindMisplaced({}, with("0-1"), whole).empty());
}

}  // namespace
}  // namespace alignd::moving
