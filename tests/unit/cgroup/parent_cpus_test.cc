// CPUs that a cgroup above a new container does not have.
#include "cgroup/parent_cpus.h"

#include <gtest/gtest.h>

#include <string>

#include "edge/fake_tree.h"

namespace alignd::cgroup {
namespace {

class ParentCpusTest : public ::testing::TestWithParam<bool> {
 protected:
  ParentCpusTest() {
    if (GetParam()) tree_.Write({"cgroup.controllers", "cpuset cpu\n"});
    Fill("kubepods", "0-5");
  }

  void Fill(const std::string& path, const std::string& effective) const {
    const std::string directory = (GetParam() ? "" : "cpuset/") + path + "/";
    tree_.Write({directory + "cpuset.cpus", GetParam() ? "\n" : effective + "\n"});
    tree_.Write({directory + "cpuset.mems", "\n"});
    const bool unified = GetParam();
    tree_.Write({directory + (unified ? "cpuset.cpus.effective" : "cpuset.effective_cpus"),
                 effective + "\n"});
    tree_.Write({directory + (unified ? "cpuset.mems.effective" : "cpuset.effective_mems"), "0\n"});
  }
  Result<Done> Require(const char* cpus, const std::string& parent = "/kubepods/podu1") const {
    return RequireInParent(CgroupTree(tree_.root()), parent, *CpuSet::Parse(cpus));
  }

  const testing::FakeTree tree_;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, ParentCpusTest, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(ParentCpusTest, NearestCgroupWithACpusetDecides) {
  EXPECT_TRUE(Require("0-5").ok());
  EXPECT_FALSE(Require("5-6").ok());
  Fill("kubepods/podu1", "0-3");
  EXPECT_TRUE(Require("0,3").ok());
  EXPECT_FALSE(Require("4").ok());
}

TEST_P(ParentCpusTest, ErrorNamesTheCgroupItsCpusAndTheRemedy) {
  const Result<Done> required = Require("4-7");
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(required.error().message,
            "the container is assigned CPUs 4-7, but cgroup /kubepods may use CPUs 0-5 only");
  EXPECT_NE(required.error().remedy.find("find the program"), std::string::npos);
}

TEST_P(ParentCpusTest, WithoutACpusetThereIsNothingToRequire) {
  EXPECT_TRUE(Require("0-63", "/machine/podu1").ok());
  EXPECT_TRUE(Require("0-63", "").ok());
}

// In version 1, the runtime fills it. In version 2, all its CPUs belong to partitions below it.
TEST_P(ParentCpusTest, EmptyParentIsFilledInVersion1Only) {
  Fill("kubepods/podu1", "");
  EXPECT_EQ(Require("0-5").ok(), !GetParam());
  EXPECT_FALSE(Require("6").ok());
}

TEST_P(ParentCpusTest, UnreadableCpusetIsAnError) {
  Fill("kubepods", "x");
  const Result<Done> required = Require("0");
  ASSERT_FALSE(required.ok());
  EXPECT_EQ(required.error().code, ErrorCode::kCorrupt);
}

}  // namespace
}  // namespace alignd::cgroup
