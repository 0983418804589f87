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

// As containerd shows the request; the names are those of the fields in cri-api.
TEST(VerboseStatus, HasTheCdiNamesIfItHasTheRequest) {
  const auto names_in = [](const std::string& config) {
    return CdiNamesInStatus(R"({"runtimeSpec":{"linux":{"cgroupsPath":"../etc"}})" + config);
  };
  using Names = std::set<std::string>;
  const std::string config = R"(,"config":{"metadata":{"name":"app"})";
  EXPECT_EQ(names_in(config + R"(,"CDI_devices":[{"name":"a.com/g=1"},{"name":"a.com/g=0"}]}})"),
            (Names{"a.com/g=0", "a.com/g=1"}));
  EXPECT_EQ(names_in(config + "}}"), Names());
  EXPECT_EQ(names_in("}"), std::nullopt);  // CRI-O
  EXPECT_EQ(names_in(config + R"(,"CDI_devices":[{"name":7}]}})"), std::nullopt);
  EXPECT_EQ(names_in(config + R"(,"CDI_devices":["a.com/g=1"]}})"), std::nullopt);
  EXPECT_EQ(CdiNamesInStatus(R"({"config":{"metadata":{"name":"app"}}})"), Names())
      << "without a cgroup";
  for (const char* const info : {"", "{", "[]", "{}", R"({"config":7})"}) {
    EXPECT_EQ(CdiNamesInStatus(info), std::nullopt) << info;
  }
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

// As containerd 1.6.20 answers, without what is not read.
TEST(VerboseStatus, CgroupDriverIsThatOfTheRuntimeHandlersWithRunc) {
  const auto with = [](const std::string& runtimes,
                       const std::string& standard = R"("defaultRuntimeName":"runc",)") {
    const Result<CgroupDriver> driver =
        CgroupDriverInStatus(R"({"containerd":{"snapshotter":"overlayfs",)" + standard +
                             R"("defaultRuntime":{"runtimeType":"","options":null},"runtimes":{)" +
                             runtimes + R"(}},"systemdCgroup":false})");
    return driver.ok() ? std::string(ToString(*driver)) : driver.error().message;
  };
  const std::string runc = R"("runc":{"runtimeType":"io.containerd.runc.v2","options":)";
  const std::string unknown = "the runtime does not report its cgroup driver";
  EXPECT_EQ(with(runc + R"({"SystemdCgroup":false}})"), "cgroupfs");
  EXPECT_EQ(with(runc + R"({"SystemdCgroup":true}})"), "systemd");
  EXPECT_EQ(with(runc + "null}"), "cgroupfs");  // runc's default
  EXPECT_EQ(with(runc + "{}}"), "cgroupfs");
  EXPECT_EQ(with(R"("kata":{"runtimeType":"io.containerd.kata.v2","options":{}},)" + runc +
                 R"({"SystemdCgroup":true}})"),
            "systemd");
  // If they differ, it is that of the default handler.
  const std::string both = R"("kata":{"runtimeType":"io.containerd.kata.v2"},)"
                           R"("nvidia":{"runtimeType":"io.containerd.runc.v2","options":{}},)" +
                           runc + R"({"SystemdCgroup":true}})";
  const std::string differ =
      "the runtime handlers nvidia and runc have different cgroup drivers: cgroupfs and systemd";
  EXPECT_EQ(with(both), "systemd");
  EXPECT_EQ(with(both, R"("defaultRuntimeName":"nvidia",)"), "cgroupfs");
  for (const char* const standard :
       {"", R"("defaultRuntimeName":"kata",)", R"("defaultRuntimeName":"absent",)",
        R"("defaultRuntimeName":7,)", R"("defaultRuntimeName":"",)"}) {
    EXPECT_EQ(with(both, standard), differ) << standard;
  }
  EXPECT_EQ(with(runc + R"({"SystemdCgroup":"true"}})"), unknown);
  EXPECT_EQ(with(R"("kata":{"runtimeType":"io.containerd.kata.v2"})"), unknown);
  EXPECT_EQ(with(""), unknown);
  for (const char* const text : {"", "[]", "{", "{}", R"({"containerd":{"runtimes":[]}})"}) {
    EXPECT_FALSE(CgroupDriverInStatus(text).ok()) << text;
  }
}

TEST(VerboseStatus, PathsOfPodsShowTheCgroupDriver) {
  EXPECT_EQ(DriverOfCgroup("/kubepods/burstable/pod1/c1"), CgroupDriver::kCgroupfs);
  EXPECT_EQ(DriverOfCgroup("/kubepods/system/pod1/c1"), CgroupDriver::kCgroupfs);
  EXPECT_EQ(DriverOfCgroup("/kubepods.slice/kubepods-pod1.slice/cri-containerd-c1.scope"),
            CgroupDriver::kSystemd);
  EXPECT_EQ(DriverOfCgroup("/k8s.io/c1"), std::nullopt);
}

}  // namespace
}  // namespace alignd::reconcile
