// CPUs and memory nodes that a cgroup above a new container does not have.
#include "cgroup/parent_cpuset.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "edge/fake_tree.h"

namespace alignd::cgroup {
namespace {

class ParentCpusetTest : public ::testing::TestWithParam<bool> {
 protected:
  ParentCpusetTest() {
    if (GetParam()) tree_.Write({"cgroup.controllers", "cpuset cpu\n"});
    Fill("kubepods", "0-5");
  }

  void Fill(const std::string& path, const std::string& effective,
            const std::string& nodes = "0") const {
    const std::string directory = (GetParam() ? "" : "cpuset/") + path + "/";
    tree_.Write({directory + "cpuset.cpus", GetParam() ? "\n" : effective + "\n"});
    tree_.Write({directory + "cpuset.mems", GetParam() ? "\n" : nodes + "\n"});
    const bool unified = GetParam();
    tree_.Write({directory + (unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus"),
                 effective + "\n"});
    tree_.Write(
        {directory + (unified ? "cpuset.mems.effective" : "cpuset.effective_mems"), nodes + "\n"});
  }
  Result<Done> Require(const char* cpus, const std::string& parent = "/kubepods/podu1") const {
    return Require(ParentNeeds{.exclusive = *CpuSet::Parse(cpus)}, parent);
  }
  Result<Done> Require(const ParentNeeds& needs,
                       const std::string& parent = "/kubepods/podu1") const {
    return RequireInParent(CgroupTree(tree_.root()), parent, needs);
  }

  const testing::FakeTree tree_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, ParentCpusetTest, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(ParentCpusetTest, NearestCgroupWithACpusetDecides) {
  EXPECT_TRUE(Require("0-5").ok());
  EXPECT_FALSE(Require("5-6").ok());
  Fill("kubepods/podu1", "0-3");
  EXPECT_TRUE(Require("0,3").ok());
  EXPECT_FALSE(Require("4").ok());
}

TEST_P(ParentCpusetTest, ErrorNamesTheCgroupItsCpusAndTheRemedy) {
  const Result<Done> required = Require("4-7");
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(required.error().message,
            "the container is assigned CPUs 4-7, but cgroup /kubepods may use CPUs 0-5 only");
  EXPECT_NE(required.error().remedy.find("find the program"), std::string::npos);
}

TEST_P(ParentCpusetTest, WithoutACpusetThereIsNothingToRequire) {
  EXPECT_TRUE(Require("0-63", "/machine/podu1").ok());
  EXPECT_TRUE(Require("0-63", "").ok());
}

// In version 1, the runtime fills it. In version 2, all its CPUs belong to partitions below it.
TEST_P(ParentCpusetTest, EmptyParentIsFilledInVersion1Only) {
  Fill("kubepods/podu1", "");
  EXPECT_EQ(Require("0-5").ok(), !GetParam());
  EXPECT_FALSE(Require("6").ok());
}

// In version 1, the runtime cannot give such a container its CPUs.
TEST_P(ParentCpusetTest, OneCpuOfTheSharedPoolIsEnough) {
  EXPECT_TRUE(Require({.exclusive = {}, .shared = *CpuSet::Parse("0,5-7")}).ok());
  const Result<Done> required = Require({.exclusive = {}, .shared = *CpuSet::Parse("6-7")});
  EXPECT_EQ(required.ok(), !GetParam());
  if (!GetParam()) return;
  EXPECT_EQ(required.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(required.error().message,
            "the container runs in the shared pool, CPUs 6-7, but cgroup /kubepods may use CPUs "
            "0-5 only");
}

// KEP-5894: systemPartition.cpuset is to be a part of reservedSystemCPUs.
TEST_P(ParentCpusetTest, SharedContainersOfASystemPartitionMayHaveReservedCpusOnly) {
  const ParentNeeds needs = {.exclusive = {},
                             .shared = *CpuSet::Parse("4-7"),
                             .shared_in_partition = *CpuSet::Parse("0-1")};
  const auto fill = [&](const std::string& path, const std::string& cpus) {
    Fill(path, cpus);
    if (GetParam()) tree_.Write({path + "/cpuset.cpus", cpus + "\n"});
  };
  Fill("kubepods", "0-7");
  const std::string parent = "/kubepods/system/burstable/podu1";
  EXPECT_TRUE(Require(needs, parent).ok()) << "without a cpuset of its own";
  fill("kubepods/system", "0-1");
  EXPECT_TRUE(Require(needs, parent).ok());
  Fill("kubepods/system/burstable/podu1", "1");
  EXPECT_TRUE(Require(needs, parent).ok());
  if (!GetParam()) return;
  // In no other cgroup, and not on CPUs that may become exclusive.
  fill("kubepods/podu1", "0-1");
  EXPECT_FALSE(Require(needs).ok());
  Fill("kubepods/system/burstable/podu1", "1-2");
  const Result<Done> required = Require(needs, parent);
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().message,
            "the container runs in the shared pool, CPUs 4-7, but cgroup "
            "/kubepods/system/burstable/podu1 may use CPUs 1-2 only");
  EXPECT_NE(required.error().remedy.find("systemPartition.cpuset"), std::string::npos);
  Fill("kubepods/system/burstable/podu1", "");
  EXPECT_FALSE(Require(needs, parent).ok());
  EXPECT_FALSE(Require({.exclusive = {2}, .shared_in_partition = {0, 1}}, parent).ok());
}

TEST_P(ParentCpusetTest, AllMemoryNodesAreRequired) {
  const auto needs = [](const char* nodes) {
    return ParentNeeds{.exclusive = {}, .memory_nodes = *CpuSet::Parse(nodes)};
  };
  Fill("kubepods/podu1", "0-3", "0-1");
  EXPECT_TRUE(Require(needs("0-1")).ok());
  const Result<Done> required = Require(needs("1-2"));
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(required.error().message,
            "the container is assigned memory of NUMA nodes 1-2, but cgroup /kubepods/podu1 may "
            "use NUMA nodes 0-1 only");
  EXPECT_NE(required.error().remedy.find("cpuset.mems"), std::string::npos);
}

// In version 1, the runtime fills it.
TEST_P(ParentCpusetTest, EmptyMemoryNodesAreFilledInVersion1Only) {
  Fill("kubepods/podu1", "0-3", "");
  EXPECT_EQ(Require({.exclusive = {}, .memory_nodes = {1}}).ok(), !GetParam());
}

TEST_P(ParentCpusetTest, UnreadableCpusetIsAnError) {
  Fill("kubepods", "x");
  const Result<Done> required = Require("0");
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().code, ErrorCode::kCorrupt);
}

// What the runtime cannot give a container that runs.
TEST_P(ParentCpusetTest, TheHighestNarrowerCgroupAboveIsFound) {
  const auto above = [this](const char* cpus, const std::string& path = "/kubepods/podu1/c1") {
    const auto found = FindNarrowerAbove(CgroupTree(tree_.root()), path, *CpuSet::Parse(cpus));
    EXPECT_TRUE(found.ok()) << found.error().Text();
    return found.ok() ? *found : std::nullopt;
  };
  const auto narrow = [](const std::string& path, const char* cpus) {
    return std::optional(NarrowCgroup{path, *CpuSet::Parse(cpus)});
  };
  Fill("kubepods/podu1/c1", "0");  // its own set is not above it
  EXPECT_EQ(above("0-5"), std::nullopt);
  EXPECT_EQ(above("5-6"), narrow("/kubepods", "0-5"));
  Fill("kubepods/podu1", "0-3");
  EXPECT_EQ(above("0-3"), std::nullopt);
  EXPECT_EQ(above("3-4"), narrow("/kubepods/podu1", "0-3"));
  EXPECT_EQ(above("3-6"), narrow("/kubepods", "0-5"));
  EXPECT_EQ(above("3-6", "/kubepods"), std::nullopt);
  EXPECT_EQ(above("0-63", "/machine/podu1/c1"), std::nullopt);  // without a cpuset
  // The runtime of version 1 fills it; in version 2, all its CPUs belong to partitions below it.
  Fill("kubepods/podu1", "");
  EXPECT_EQ(above("3-4"), GetParam() ? narrow("/kubepods/podu1", "") : std::nullopt);
}

TEST_P(ParentCpusetTest, ACgroupAboveThatCannotBeReadIsAnError) {
  Fill("kubepods", "none");
  const auto found = FindNarrowerAbove(CgroupTree(tree_.root()), "/kubepods/podu1/c1", {1});
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace alignd::cgroup
