// A resize that alignd refuses: what the pod's cgroup has afterwards, and where the refusal shows.
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "control/control_client.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"

namespace alignd::daemon {
namespace {

using control::v1::Condition;
using reconcile::ConditionType;

class DaemonRefusedResize : public DaemonTest, public ::testing::WithParamInterface<bool> {
 protected:
  DaemonRefusedResize() : cgroups_(CgroupRoot(), GetParam(), "0-27") {
    watch_.OnEvent([this](const RuntimeModel::Event& event) { cgroups_.Apply(event); });
  }
  ~DaemonRefusedResize() override { watch_.OnEvent({}); }

  // From exclusive to shared CPUs and back is refused, as well as what does not fit.
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.resize_exclusive_cpus = allocation::CpuResizes::kCountOnly;
    return options;
  }

  static v1::LinuxContainerResources Sizes(int millis) {
    return podsource::Kubelet(millis, millis, 100 * 1024 * 1024).linux().resources();
  }
  grpc::Status Resize(const std::string& container, int millis) const {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(container);
    *request.mutable_linux() = Sizes(millis);
    return Update(request);
  }
  Answer<v1::CreateContainerResponse> CreateAgain(const std::string& sandbox,
                                                  const v1::PodSandboxConfig& pod, int millis) {
    v1::ContainerConfig config = Pinned(0);
    *config.mutable_linux()->mutable_resources() = Sizes(millis);
    config.mutable_metadata()->set_attempt(++attempts_);
    return Create(sandbox, pod, config);
  }

  std::filesystem::path SharesFile() const {
    return cgroups_.QuotaFile("/kubepods/podpinned").parent_path() /
           (GetParam() ? "cpu.weight" : "cpu.shares");
  }
  // As the kubelet does when it resizes the pod.
  void WritePodCgroup(int millis, const std::string& shares) const {
    cgroups_.SetQuota("/kubepods/podpinned",
                      std::to_string(millis * 100) + (GetParam() ? " 100000" : ""));
    std::ofstream(SharesFile()) << shares << "\n";
  }
  bool HasNoQuota() const {
    return cgroups_.QuotaOf("/kubepods/podpinned") == (GetParam() ? "max" : "-1");
  }
  std::vector<Condition> Reported(ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  // The newest decision about the pod.
  control::v1::PodDecision Explained(const std::string& pod) const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain(pod, 1);
    if (!explained.ok() || explained->decisions_size() != 1) {
      ADD_FAILURE() << "no decision about " << pod;
      return {};
    }
    return explained->decisions(0);
  }

  FakeCgroups cgroups_;
  uint32_t attempts_ = 0;
};
INSTANTIATE_TEST_SUITE_P(CgroupVersions, DaemonRefusedResize, ::testing::Values(false, true),
                         [](const auto& unified) { return unified.param ? "v2" : "v1"; });

TEST_P(DaemonRefusedResize, LeavesThePodWithoutQuotaAndWithItsShares) {
  WritePodCgroup(2000, "2048");
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  EXPECT_TRUE(HasNoQuota());
  // Once alignd has lifted a second quota, it has read the shares.
  for (int i = 0; i < 2; ++i) {
    WritePodCgroup(2000, "2048");
    ASSERT_TRUE(Eventually([&] { return HasNoQuota(); }));
  }
  for (int i = 0; i < 3; ++i) {  // the kubelet tries again
    WritePodCgroup(3000, "3072");
    // More CPUs than the node has for containers.
    ASSERT_EQ(Resize(pinned.container, 28'000).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_TRUE(Eventually([&] { return HasNoQuota(); }));
    EXPECT_TRUE(Eventually([&] { return ReadText(SharesFile()).starts_with("2048"); }))
        << ReadText(SharesFile());
  }
}

TEST_P(DaemonRefusedResize, QuotaThatTheKubeletKeepsWritingIsReported) {
  WritePodCgroup(2000, "2048");
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  ASSERT_EQ(Resize(pinned.container, 500).error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  ASSERT_TRUE(Eventually([&] {
    if (HasNoQuota()) WritePodCgroup(500, "2048");
    return !Reported(ConditionType::kPodQuotaRewritten).empty();
  }));
  const Condition rewritten = Reported(ConditionType::kPodQuotaRewritten)[0];
  EXPECT_EQ(rewritten.pod(), "default/pod-pinned");
  EXPECT_TRUE(rewritten.message().starts_with("the kubelet keeps writing")) << rewritten.message();
  EXPECT_TRUE(Eventually([&] { return HasNoQuota(); }));
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  EXPECT_TRUE(Eventually([&] {
    return Reported(ConditionType::kPodQuotaRewritten).empty() &&
           Reported(ConditionType::kPodResizeRefused).empty();
  }));
}

TEST_P(DaemonRefusedResize, IsShownWithTheNameOfThePod) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(2));
  for (int i = 0; i < 2; ++i) ASSERT_FALSE(Resize(pinned.container, 500).ok());
  ASSERT_EQ(Reported(ConditionType::kPodResizeRefused).size(), 1U);
  const Condition refused = Reported(ConditionType::kPodResizeRefused)[0];
  EXPECT_EQ(refused.pod(), "default/pod-pinned");
  EXPECT_EQ(refused.container(), "app");
  EXPECT_EQ(refused.times(), 2U);
  EXPECT_EQ(refused.message(),
            "a resize is refused: it has 2 exclusive CPUs (1-2), and only a whole number of CPUs "
            "can replace them: asked for 0.5 CPUs");
  EXPECT_TRUE(refused.remedy().starts_with("request a whole number of CPUs")) << refused.remedy();
  const control::v1::PodDecision decision = Explained("default/pod-pinned");
  EXPECT_EQ(decision.outcome(), "refused");
  EXPECT_EQ(decision.reason(), "ResizeRefused");
  EXPECT_EQ(decision.source(), "in-place resize");
  // It does not say where the requests of the pod are from.
  const auto pods = control::ControlClient(DaemonOptions().ControlSocket()).ListPods();
  ASSERT_TRUE(pods.ok()) << pods.error().Text();
  for (const auto& pod : pods->pods()) EXPECT_EQ(pod.source(), "CRI estimate");
  EXPECT_EQ(decision.times(), 2U);
  EXPECT_TRUE(decision.message().starts_with(
      "container app of pod default/pod-pinned has 2 exclusive CPUs (1-2)"))
      << decision.message();
  // The pod's author has undone it, and resizes the memory.
  ASSERT_TRUE(Resize(pinned.container, 2000).ok());
  EXPECT_TRUE(Reported(ConditionType::kPodResizeRefused).empty());
}

TEST_P(DaemonRefusedResize, RefusedGrowthIsShownToo) {
  Start();
  v1::ContainerConfig config = Pinned(0);
  *config.mutable_linux()->mutable_resources() = Sizes(1500);
  const Running shared = RunOne(PodConfig("pinned"), config);
  ASSERT_FALSE(Resize(shared.container, 2000).ok());
  ASSERT_EQ(Reported(ConditionType::kPodResizeRefused).size(), 1U);
  EXPECT_EQ(Explained("default/pod-pinned").reason(), "ResizeRefused");
}

// The container crashes, and the kubelet creates it with the size that was refused: it must not get
// exclusive CPUs for almost no request.
TEST_P(DaemonRefusedResize, AlsoHoldsWhenTheContainerIsCreatedAgain) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const Running pinned = RunOne(pod, Pinned(1));
  ASSERT_FALSE(Resize(pinned.container, 10).ok());
  for (const int millis : {10, 500, 1500}) {
    ASSERT_TRUE(millis != 10 || runtime_->EndContainer(pinned.container, 137));
    const auto refused = CreateAgain(pinned.sandbox, pod, millis);
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION) << millis;
    EXPECT_TRUE(refused.status.error_message().starts_with(
        "ResizeRefused: container app of pod default/pod-pinned has 1 exclusive CPU (1)"))
        << refused.status.error_message();
    EXPECT_EQ(Explained("default/pod-pinned").reason(), "ResizeRefused");
    EXPECT_EQ(Reported(ConditionType::kPodResizeRefused).size(), 1U);
  }
  EXPECT_NE(CreateAgain(pinned.sandbox, pod, 10)
                .status.error_message()
                .find("asked for 0.01 CPUs, which are not exclusive"),
            std::string::npos);
  const auto created = CreateAgain(pinned.sandbox, pod, 1000);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1");
  EXPECT_TRUE(Reported(ConditionType::kPodResizeRefused).empty());
}

}  // namespace
}  // namespace alignd::daemon
