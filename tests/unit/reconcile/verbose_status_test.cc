#include "reconcile/verbose_status.h"

#include <gtest/gtest.h>

namespace alignd::reconcile {
namespace {

TEST(VerboseStatus, HasTheCgroup) {
  const Result<ContainerSpec> spec =
      SpecInStatus(R"({"pid":7,"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/pod1/abc"}}})");
  ASSERT_TRUE(spec.ok()) << spec.error().Text();
  EXPECT_EQ(spec->cgroup, "/kubepods/pod1/abc");
  EXPECT_EQ(spec->cpu_shares, 0);
  EXPECT_EQ(
      SpecInStatus(R"({"runtimeSpec":{"linux":{"cgroupsPath":"kubepods-pod1.slice:crio:abc"}}})")
          ->cgroup,
      "/kubepods.slice/kubepods-pod1.slice/crio-abc.scope");
}

// An argument of the container, say.
TEST(VerboseStatus, NeedNotBeUtf8) {
  const Result<ContainerSpec> spec = SpecInStatus(
      "{\"runtimeSpec\":{\"process\":{\"args\":[\"\xff\xc0\"]},"
      "\"linux\":{\"cgroupsPath\":\"/kubepods/pod1/abc\"}}}");
  ASSERT_TRUE(spec.ok()) << spec.error().Text();
  EXPECT_EQ(spec->cgroup, "/kubepods/pod1/abc");
}

TEST(VerboseStatus, HasTheCpuShareAndQuota) {
  const Result<ContainerSpec> spec = SpecInStatus(
      R"({"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/pod1/abc","resources":{"memory":{},)"
      R"("cpu":{"shares":2048,"quota":-1,"period":100000,"cpus":"1-2"}}}}})");
  ASSERT_TRUE(spec.ok()) << spec.error().Text();
  EXPECT_EQ(spec->cpu_shares, 2048);
  EXPECT_EQ(spec->cpu_quota, -1);
  EXPECT_EQ(spec->cpu_period, 100'000);
  const Result<ContainerSpec> odd =
      SpecInStatus(R"({"runtimeSpec":{"linux":{"cgroupsPath":"/kubepods/pod1/abc","resources":)"
                   R"({"cpu":{"shares":"many","quota":1.5}}}}})");
  ASSERT_TRUE(odd.ok()) << odd.error().Text();
  EXPECT_EQ(odd->cpu_shares, 0);
  EXPECT_EQ(odd->cpu_quota, 0);
}

TEST(VerboseStatus, StatusWithoutCgroupIsNotFound) {
  for (const char* info :
       {"", "{", "[]", "{}", R"({"runtimeSpec":{"linux":{}}})",
        R"({"runtimeSpec":{"linux":{"cgroupsPath":7}}})", R"({"runtimeSpec":[]})"}) {
    EXPECT_EQ(SpecInStatus(info).error().code, ErrorCode::kNotFound) << info;
  }
  EXPECT_EQ(SpecInStatus(R"({"runtimeSpec":{"linux":{"cgroupsPath":"../etc"}}})").error().code,
            ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace alignd::reconcile
