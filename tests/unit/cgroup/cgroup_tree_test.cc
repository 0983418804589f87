#include "cgroup/cgroup_tree.h"

#include <gtest/gtest.h>

#include "edge/fake_tree.h"
#include "host/file.h"

namespace alignd::cgroup {
namespace {

using testing::FakeTree;

TEST(CgroupTree, ReadsTheCpusetOfVersion1) {
  const FakeTree tree({{"cpuset/kubepods/pod1/c/cpuset.cpus", "1-3\n"},
                       {"cpuset/kubepods/pod1/c/cpuset.mems", "0\n"},
                       {"cpuset/kubepods/pod1/c/cpuset.effective_cpus", "1-2\n"},
                       {"cpuset/kubepods/pod1/c/cpuset.effective_mems", "0\n"}});
  const CgroupTree cgroups(tree.root());
  EXPECT_FALSE(cgroups.is_version2());
  const Result<Cpuset> cpuset = cgroups.ReadCpuset("/kubepods/pod1/c");
  ASSERT_TRUE(cpuset.ok()) << cpuset.error().Text();
  EXPECT_EQ(*cpuset, (Cpuset{{1, 2, 3}, {0}, {1, 2}, {0}}));
}

TEST(CgroupTree, ReadsTheCpusetOfVersion2) {
  const FakeTree tree({{"cgroup.controllers", "cpu io cpuset memory\n"},
                       {"kubepods.slice/c.scope/cpuset.cpus", "\n"},
                       {"kubepods.slice/c.scope/cpuset.mems", "\n"},
                       {"kubepods.slice/c.scope/cpuset.cpus.effective", "0-1\n"},
                       {"kubepods.slice/c.scope/cpuset.mems.effective", "0-1\n"}});
  const CgroupTree cgroups(tree.root());
  EXPECT_TRUE(cgroups.is_version2());
  const Result<Cpuset> cpuset = cgroups.ReadCpuset("/kubepods.slice/c.scope");
  ASSERT_TRUE(cpuset.ok()) << cpuset.error().Text();
  EXPECT_EQ(*cpuset, (Cpuset{{}, {}, {0, 1}, {0, 1}}));
}

// As on machines whose unified hierarchy has none of the controllers.
TEST(CgroupTree, IsVersion1IfTheUnifiedHierarchyHasNoCpusets) {
  FakeTree tree;
  tree.Write({"cgroup.controllers", "hugetlb\n"});
  EXPECT_FALSE(CgroupTree(tree.root()).is_version2());
}

TEST(CgroupTree, MissingCgroupIsNotFound) {
  const FakeTree tree;
  const CgroupTree cgroups(tree.root());
  EXPECT_EQ(cgroups.ReadCpuset("/gone").error().code, ErrorCode::kNotFound);
  EXPECT_EQ(cgroups.LiftCpuQuota("/gone").error().code, ErrorCode::kNotFound);
}

TEST(CgroupTree, FileWithoutAListIsCorrupt) {
  FakeTree tree;
  tree.Write({"cpuset/c/cpuset.cpus", "one\n"});
  EXPECT_EQ(CgroupTree(tree.root()).ReadCpuset("/c").error().code, ErrorCode::kCorrupt);
}

TEST(CgroupTree, LiftsTheQuotaOnce) {
  FakeTree version1;
  version1.Write({"cpu/kubepods/pod1/cpu.cfs_quota_us", "300000\n"});
  const CgroupTree one(version1.root());
  EXPECT_EQ(*one.LiftCpuQuota("/kubepods/pod1"), 300'000);
  EXPECT_EQ(*host::ReadFile(version1.root() / "cpu/kubepods/pod1/cpu.cfs_quota_us"), "-1");
  EXPECT_EQ(*one.LiftCpuQuota("/kubepods/pod1"), std::nullopt);

  const FakeTree version2(
      {{"cgroup.controllers", "cpuset cpu\n"}, {"kubepods/pod1/cpu.max", "300000 100000\n"}});
  const CgroupTree two(version2.root());
  EXPECT_EQ(*two.LiftCpuQuota("/kubepods/pod1"), 300'000);
  EXPECT_EQ(*host::ReadFile(version2.root() / "kubepods/pod1/cpu.max"), "max");
  version2.Write({"kubepods/pod1/cpu.max", "max 100000\n"});
  EXPECT_EQ(*two.LiftCpuQuota("/kubepods/pod1"), std::nullopt);
}

TEST(CgroupTree, SetsAMissingQuotaOnly) {
  FakeTree version1;
  version1.Write({"cpu/c/cpu.cfs_quota_us", "-1\n"});
  version1.Write({"cpu/c/cpu.cfs_period_us", "50000\n"});
  const CgroupTree one(version1.root());
  EXPECT_EQ(*one.SetMissingCpuQuota("/c", 100'000), 2'000'000U);
  EXPECT_EQ(*host::ReadFile(version1.root() / "cpu/c/cpu.cfs_quota_us"), "100000");
  EXPECT_EQ(*one.SetMissingCpuQuota("/c", 7), std::nullopt);
  EXPECT_EQ(one.SetMissingCpuQuota("/gone", 7).error().code, ErrorCode::kNotFound);

  FakeTree version2({{"cgroup.controllers", "cpuset cpu\n"}, {"c/cpu.max", "max 100000\n"}});
  const CgroupTree two(version2.root());
  EXPECT_EQ(*two.SetMissingCpuQuota("/c", 50'000), 500'000U);
  EXPECT_EQ(*host::ReadFile(version2.root() / "c/cpu.max"), "50000");
  EXPECT_EQ(*two.SetMissingCpuQuota("/c", 7), std::nullopt);
  for (const char* const text : {"max\n", "max 0\n", "max x\n"}) {
    version2.Write({"c/cpu.max", text});
    EXPECT_EQ(two.SetMissingCpuQuota("/c", 7).error().code, ErrorCode::kCorrupt) << text;
  }
}

TEST(CgroupTree, WritesSharesAsTheyWereRead) {
  const FakeTree version1({{"cpu/pod1/cpu.shares", "1024\n"}});
  const CgroupTree one(version1.root());
  EXPECT_EQ(*one.ReadCpuShares("/pod1"), "1024");
  ASSERT_TRUE(one.WriteCpuShares("/pod1", "512").ok());
  EXPECT_EQ(*one.ReadCpuShares("/pod1"), "512");
  EXPECT_EQ(one.ReadCpuShares("/gone").error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(one.WriteCpuShares("/gone", "512").ok());

  const FakeTree version2({{"cgroup.controllers", "cpuset cpu\n"}, {"pod1/cpu.weight", "39\n"}});
  const CgroupTree two(version2.root());
  EXPECT_EQ(*two.ReadCpuShares("/pod1"), "39");
  EXPECT_EQ(two.CpuFiles("/pod1"),
            (std::vector{version2.root() / "pod1/cpu.max", version2.root() / "pod1/cpu.weight"}));
}

TEST(CgroupTree, UnreadableQuotaIsKept) {
  FakeTree tree;
  tree.Write({"cpu/c/cpu.cfs_quota_us", "much\n"});
  EXPECT_EQ(CgroupTree(tree.root()).LiftCpuQuota("/c").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(*host::ReadFile(tree.root() / "cpu/c/cpu.cfs_quota_us"), "much\n");
}

TEST(CgroupTree, ReadsTheLimitOfHugePages) {
  const FakeTree version1({{"hugetlb/kubepods/pod1/hugetlb.2MB.limit_in_bytes", "8388608\n"},
                           {"hugetlb/kubepods/pod1/hugetlb.1GB.limit_in_bytes", "none\n"}});
  const CgroupTree one(version1.root());
  EXPECT_EQ(*one.ReadHugepageLimit("/kubepods/pod1", "2MB"), 8'388'608);
  EXPECT_EQ(one.ReadHugepageLimit("/kubepods/pod1", "1GB").error().code, ErrorCode::kCorrupt);
  EXPECT_EQ(one.ReadHugepageLimit("/kubepods/pod1", "64KB").error().code, ErrorCode::kNotFound);

  const FakeTree version2({{"cgroup.controllers", "cpuset hugetlb\n"},
                           {"kubepods/pod1/hugetlb.2MB.max", "max\n"},
                           {"kubepods/pod1/hugetlb.1GB.max", "0\n"}});
  const CgroupTree two(version2.root());
  EXPECT_GT(*two.ReadHugepageLimit("/kubepods/pod1", "2MB"), int64_t{1} << 60);
  EXPECT_EQ(*two.ReadHugepageLimit("/kubepods/pod1", "1GB"), 0);
}

}  // namespace
}  // namespace alignd::cgroup
