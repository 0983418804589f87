#include "alignd/checkpoint/verify.h"

#include <gtest/gtest.h>

namespace alignd::checkpoint {
namespace {

struct GoodCase {
  const char* name;
  const char* text;
  Verification verification;
};

class VerifyGood : public testing::TestWithParam<GoodCase> {};

TEST_P(VerifyGood, DescribesTheFile) {
  EXPECT_EQ(KindOfText(GetParam().text), GetParam().verification.kind);
  const Result<Verification> verified =
      VerifyCheckpoint(GetParam().verification.kind, GetParam().text);
  ASSERT_TRUE(verified.ok()) << verified.error().Text();
  EXPECT_EQ(*verified, GetParam().verification);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, VerifyGood,
    testing::Values(
        GoodCase{"Cpu",
                 R"({"policyName":"static","defaultCpuSet":"0,4-27","entries":{)"
                 R"("39b37746-7f5e-4064-b8e1-eebd2bfaa003":{"app":"1-3"}},"checksum":3300516549})",
                 {CheckpointKind::kCpu, 2, "static", 1, 0, true, 3300516549, 3300516549}},
        GoodCase{"CpuUnchecked",
                 R"({"policyName":"none","defaultCpuSet":""})",
                 {CheckpointKind::kCpu, 2, "none", 0, 0, true, 0, 1353318690}},
        GoodCase{"CpuWithData",
                 R"({"policyName":"static","defaultCpuSet":"0,5-7","entries":{"u":{"app":"1-2"}},)"
                 R"("checksum":1,"data":"{\"policyName\":\"static\",\"defaultCpuSet\":\"0-7\"}",)"
                 R"("dataChecksum":3294586087})",
                 {CheckpointKind::kCpu, 4, "static", 0, 0, false, 3294586087, 3294586087, 1}},
        GoodCase{"Memory",
                 R"({"policyName":"None","machineState":{},"checksum":4236770233})",
                 {CheckpointKind::kMemory, 1, "None", 0, 0, true, 4236770233, 4236770233}},
        GoodCase{"Device",
                 R"({"Data":{"PodDeviceEntries":[{"PodUID":"u1","ContainerName":"app",)"
                 R"("ResourceName":"r/x","DeviceIDs":{"0":["d1","d2"]},"AllocResp":"CgD/"}],)"
                 R"("RegisteredDevices":{"r/x":["d1","d2"]}},"Checksum":229842288})",
                 {CheckpointKind::kDevice, 2, "", 1, 0, true, 229842288, 229842288}}),
    [](const auto& test) { return test.param.name; });

TEST(VerifyCheckpoint, ReportsBothChecksumsOfADamagedFile) {
  for (const auto kind : {CheckpointKind::kCpu, CheckpointKind::kMemory, CheckpointKind::kDevice}) {
    const Result<Verification> verified = VerifyCheckpoint(kind, R"({"Checksum":5})");
    ASSERT_FALSE(verified.ok());
    EXPECT_EQ(verified.error().message, "checkpoint is corrupted");
    EXPECT_TRUE(verified.error().remedy.starts_with("its checksum is 5, its content has "));
  }
}

TEST(KindOfFileName, LooksAtTheLastComponent) {
  EXPECT_EQ(KindOfFileName("/var/lib/kubelet/cpu_manager_state"), CheckpointKind::kCpu);
  EXPECT_EQ(KindOfFileName("memory_manager_state.bak"), CheckpointKind::kMemory);
  EXPECT_EQ(KindOfFileName("x/node7-kubelet_internal_checkpoint"), CheckpointKind::kDevice);
  EXPECT_EQ(KindOfFileName("cpu_manager_state/copy"), std::nullopt);
  EXPECT_EQ(KindOfFileName(""), std::nullopt);
}

TEST(KindOfText, IsEmptyIfTheTextIsAmbiguous) {
  for (const char* text : {"", "{}", "[]", R"({"policyName":"none"})",
                           R"({"defaultCpuSet":"","machineState":{}})", R"({"x":{"Data":1}})"}) {
    EXPECT_EQ(KindOfText(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace alignd::checkpoint
