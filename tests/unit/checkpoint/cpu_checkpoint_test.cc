#include "alignd/checkpoint/cpu_checkpoint.h"

#include <gtest/gtest.h>

#include "alignd/checkpoint/documents.h"

namespace alignd::checkpoint {
namespace {

constexpr const char* kPod = "39b37746-7f5e-4064-b8e1-eebd2bfaa003";
constexpr const char* kOnePod =
    R"({"policyName":"static","defaultCpuSet":"0,4-27",)"
    R"("entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},"checksum":3300516549})";

cpumanager::CpuState OnePod() {
  cpumanager::CpuState state;
  state.default_set = CpuSet{0} | CpuSet::Range(4, 27);
  state.assignments[kPod]["app"] = CpuSet::Range(1, 3);
  return state;
}

TEST(FormatCpuCheckpoint, WritesAnEmptyState) {
  EXPECT_EQ(FormatCpuCheckpoint("none", {}),
            R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690})");
}

TEST(FormatCpuCheckpoint, WritesAssignmentsAndNotWhatIsReusable) {
  cpumanager::CpuState state = OnePod();
  state.reusable["pod"] = CpuSet{5};
  EXPECT_EQ(FormatCpuCheckpoint("static", state), kOnePod);
}

TEST(ParseCpuCheckpoint, ReadsWhatIsWritten) {
  const Result<CpuCheckpoint> read = ParseCpuCheckpoint(kOnePod);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, (CpuCheckpoint{"static", OnePod(), 2, {}}));
}

TEST(ParseCpuCheckpoint, LeavesOutWhatHasNoCpus) {
  const Result<CpuCheckpoint> read =
      ParseCpuCheckpoint(R"({"entries":{"p":{"a":""},"q":{},"r":null,"s":{"a":"3","b":null}}})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  cpumanager::CpuState state;
  state.assignments["s"]["a"] = CpuSet{3};
  EXPECT_EQ(read->state, state);
}

TEST(ParseCpuCheckpoint, HandsOutContainerIdsOfVersion1) {
  const Result<CpuCheckpoint> read =
      ParseCpuCheckpoint(R"({"policyName":"static","defaultCpuSet":"0","entries":{"c1":"1-2"}})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(read->version, 1);
  EXPECT_EQ(read->by_container_id, (std::map<std::string, CpuSet>{{"c1", CpuSet{1, 2}}}));
  EXPECT_TRUE(read->state.assignments.empty());

  const Result<CpuCheckpoint> migrated = MigrateCpuCheckpoint(*read, {{"c1", {"pod", "app"}}});
  ASSERT_TRUE(migrated.ok()) << migrated.error().Text();
  cpumanager::CpuState state;
  state.default_set = CpuSet{0};
  state.assignments["pod"]["app"] = CpuSet{1, 2};
  EXPECT_EQ(*migrated, (CpuCheckpoint{"static", state, 2, {}}));
}

TEST(MigrateCpuCheckpoint, NeedsEveryContainer) {
  CpuCheckpoint old;
  old.version = 1;
  old.by_container_id["c1"] = CpuSet{1};
  const Result<CpuCheckpoint> migrated = MigrateCpuCheckpoint(old, {{"c2", {"pod", "app"}}});
  ASSERT_FALSE(migrated.ok());
  EXPECT_EQ(migrated.error().message,
            "failed to migrate checkpoint from v1 to v2: containerID 'c1' not found in initial "
            "containers list");
  EXPECT_EQ(migrated.error().remedy, RemedyOf(CheckpointKind::kCpu));
}

TEST(MigrateCpuCheckpoint, LeavesVersion2Alone) {
  const CpuCheckpoint checkpoint{"static", OnePod(), 2, {}};
  const Result<CpuCheckpoint> migrated = MigrateCpuCheckpoint(checkpoint, {});
  ASSERT_TRUE(migrated.ok());
  EXPECT_EQ(*migrated, checkpoint);
}

struct ErrorCase {
  const char* name;
  const char* text;
  const char* message;  // its beginning
};

class CpuCheckpointErrors : public testing::TestWithParam<ErrorCase> {};

TEST_P(CpuCheckpointErrors, NameTheList) {
  const Result<CpuCheckpoint> read = ParseCpuCheckpoint(GetParam().text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(read.error().message.starts_with(GetParam().message)) << read.error().message;
  EXPECT_EQ(read.error().remedy, RemedyOf(CheckpointKind::kCpu));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuCheckpointErrors,
    testing::Values(ErrorCase{"DefaultSet", R"({"defaultCpuSet":"3-1"})",
                              R"(could not parse default cpu set "3-1": )"},
                    ErrorCase{"Entry", R"({"entries":{"p":{"c":"x"}}})",
                              R"(could not parse cpuset "x" for container "c" in pod "p": )"},
                    ErrorCase{"Version1Entry", R"({"entries":{"c":"x"}})",
                              R"(could not parse cpuset "x" for container id "c": )"}),
    [](const auto& test) { return test.param.name; });

TEST(RequirePolicy, ComparesWithTheConfiguredCpuPolicy) {
  CpuCheckpoint checkpoint;
  checkpoint.policy_name = "none";
  EXPECT_TRUE(RequirePolicy(checkpoint, "none").ok());
  const Result<Done> other = RequirePolicy(checkpoint, "static");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message,
            R"(configured policy "static" differs from state checkpoint policy "none")");
  EXPECT_TRUE(other.error().remedy.starts_with("set the policy back, or "));
}

}  // namespace
}  // namespace alignd::checkpoint
