#include "alignd/checkpoint/cpu_checkpoint.h"

#include <gtest/gtest.h>

#include "alignd/checkpoint/documents.h"

namespace alignd::checkpoint {
namespace {

constexpr const char* kPod = "39b37746-7f5e-4064-b8e1-eebd2bfaa003";
constexpr const char* kCpuOfOnePod =
    R"({"policyName":"static","defaultCpuSet":"0,4-27",)"
    R"("entries":{"39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},"checksum":3300516549})";

cpumanager::CpuState CpuOfOnePod() {
  cpumanager::CpuState state;
  state.default_set = CpuSet{0} | CpuSet::Range(4, 27);
  state.assignments[kPod]["app"] = CpuSet::Range(1, 3);
  return state;
}

TEST(FormatCpuCheckpoint, WritesAnEmptyState) {
  EXPECT_EQ(FormatCpuCheckpoint("none", {}, StateForm::kPlain),
            R"({"policyName":"none","defaultCpuSet":"","checksum":1353318690})");
}

TEST(FormatCpuCheckpoint, WritesAssignmentsAndNotWhatIsReusable) {
  cpumanager::CpuState state = CpuOfOnePod();
  state.reusable["pod"] = CpuSet{5};
  EXPECT_EQ(FormatCpuCheckpoint("static", state, StateForm::kPlain), kCpuOfOnePod);
}

TEST(ParseCpuCheckpoint, ReadsWhatIsWritten) {
  const Result<CpuCheckpoint> read = ParseCpuCheckpoint(kCpuOfOnePod);
  ASSERT_TRUE(read.ok()) << read.error().Text();
  EXPECT_EQ(*read, (CpuCheckpoint{"static", CpuOfOnePod()}));
}

TEST(ParseCpuCheckpoint, LeavesOutWhatHasNoCpus) {
  const Result<CpuCheckpoint> read =
      ParseCpuCheckpoint(R"({"entries":{"p":{"a":""},"q":{},"r":null,"s":{"a":"3","b":null}}})");
  ASSERT_TRUE(read.ok()) << read.error().Text();
  cpumanager::CpuState state;
  state.assignments["s"]["a"] = CpuSet{3};
  EXPECT_EQ(read->state, state);
}

TEST(ParseCpuCheckpoint, RefusesVersion1) {
  const Result<CpuCheckpoint> read =
      ParseCpuCheckpoint(R"({"policyName":"static","defaultCpuSet":"0","entries":{"c1":"1-2"}})");
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error(),
            (Error{ErrorCode::kCorrupt,
                   "the file is from a kubelet before 1.18 and names containers by the runtime's "
                   "ids; this format is not supported",
                   std::string(RemedyOf(CheckpointKind::kCpu))}));
}

struct CpuErrorCase {
  const char* name;
  const char* text;
  const char* message;  // its beginning
};

class CpuCheckpointErrors : public testing::TestWithParam<CpuErrorCase> {};

TEST_P(CpuCheckpointErrors, NameTheList) {
  const Result<CpuCheckpoint> read = ParseCpuCheckpoint(GetParam().text);
  ASSERT_FALSE(read.ok());
  EXPECT_EQ(read.error().code, ErrorCode::kCorrupt);
  EXPECT_TRUE(read.error().message.starts_with(GetParam().message)) << read.error().message;
  EXPECT_EQ(read.error().remedy, RemedyOf(CheckpointKind::kCpu));
}

INSTANTIATE_TEST_SUITE_P(
    Cases, CpuCheckpointErrors,
    testing::Values(CpuErrorCase{"DefaultSet", R"({"defaultCpuSet":"3-1"})",
                                 R"(could not parse default cpu set "3-1": )"},
                    CpuErrorCase{"Entry", R"({"entries":{"p":{"c":"x"}}})",
                                 R"(could not parse cpuset "x" for container "c" in pod "p": )"}),
    [](const auto& test) { return test.param.name; });

TEST(RequirePolicy, ComparesWithTheConfiguredCpuPolicy) {
  CpuCheckpoint checkpoint;
  checkpoint.policy_name = "none";
  EXPECT_TRUE(RequirePolicy(checkpoint, "none").ok());
  const Result<Done> other = RequirePolicy(checkpoint, "static");
  ASSERT_FALSE(other.ok());
  EXPECT_EQ(other.error().message,
            R"(configured policy "static" differs from state checkpoint policy "none")");
  EXPECT_TRUE(other.error().remedy.starts_with("set the policy as before, or "));
}

}  // namespace
}  // namespace alignd::checkpoint
