// What waits although the kubelet has admitted the pod: a plugin that is late, and a device whose
// last pod has not ended.
#include <gtest/gtest.h>

#include <future>
#include <set>
#include <string>

#include "core/pod_builder.h"
#include "mirror_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

using Ids = std::set<std::string>;

class MirrorWaits : public MirrorTest {
 protected:
  static bool Says(const grpc::Status& status, const std::string& text) {
    return status.error_message().find(text) != std::string::npos;
  }
};

// A fresh node: the kubelet knows no device plugin yet and ignores the resource. It allocates the
// device when it tries again (manager.go, GetDeviceRunContainerOptions).
TEST_F(MirrorWaits, StaticPodWithALatePluginDoesNotStartWithoutItsDevice) {
  Start();
  StartKubelet();
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  (*api)->SetPod(MakePod("static", {App("app", {{"cpu", "3"}, {"memory", "100Mi"}, {kGpu, "1"}})}));
  const v1::PodSandboxConfig pod = PodConfig("static");
  const std::string sandbox = Run(pod);
  auto waits = std::async(std::launch::async, [&] { return CreateIn(sandbox, pod, Pinned(3)); });
  ASSERT_TRUE(Eventually(
      [&] { return LastAnswerTo("static").find("has not registered yet") != std::string::npos; }));
  StartGpus();
  const Created early = waits.get();
  EXPECT_EQ(early.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Says(early.status, "but the kubelet allocated none for it"))
      << early.status.error_message();
  EXPECT_TRUE(Says(early.status, "wait: the kubelet allocates devices when it tries again"))
      << early.status.error_message();
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());

  ASSERT_TRUE(kubelet_->WaitUntilHealthy(kGpu, AllGpus(), kPatience));
  ASSERT_TRUE(kubelet_->Admit({"static", "app"}, {{kGpu, 1}}).ok());
  const Created now = CreateIn(sandbox, pod, Pinned(3));
  ASSERT_TRUE(now.status.ok()) << now.status.error_message();
  EXPECT_EQ(GpusOf(now.seen), kubelet_->IdsOf({"static", "app"}, kGpu));
}

// A pod that was deleted by force is gone for the kubelet, while its process ignores SIGTERM.
TEST_F(MirrorWaits, RefusalNamesThePodThatIsEnding) {
  for (const auto mode : {mirror::BindingMode::kStrict, mirror::BindingMode::kPreferred}) {
    rules_ = {{"nvidia.com/*", mode}};
    StartAll();
    const Created old_pod = RunPod("old", 0, 3);
    ASSERT_TRUE(old_pod.status.ok()) << old_pod.status.error_message();
    runtime_->SetDelay("StopContainer", kPatience * 2);
    v1::StopContainerRequest stop;
    stop.set_container_id(old_pod.id);
    EXPECT_EQ(Call<v1::StopContainerResponse>("StopContainer", stop, milliseconds(200))
                  .status.error_code(),
              grpc::StatusCode::DEADLINE_EXCEEDED);
    ASSERT_TRUE(kubelet_->Forget("old").ok());
    ASSERT_TRUE(kubelet_->Admit({"new", "app"}, {{kGpu, 1}}).ok());
    const v1::PodSandboxConfig pod = BurstablePod("new");
    const std::string sandbox = Run(pod);
    const Created refused = CreateIn(sandbox, pod, Shared());
    EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_TRUE(Says(refused.status,
                     "Still assigned: pod default/pod-old (old), which is ending: container app "
                     "has nvidia.com/gpu GPU-"))
        << refused.status.error_message();
    EXPECT_TRUE(Says(refused.status, "end the processes that ignore SIGTERM"))
        << refused.status.error_message();
    ASSERT_TRUE(StopSandbox(old_pod.sandbox).ok());
    const Created now = CreateIn(sandbox, pod, Shared());
    EXPECT_TRUE(now.status.ok()) << now.status.error_message();
    kubelet_.reset();
    StopDaemon();
    gpus_.reset();
    runtime_.reset();
    watch_.Forget();
    std::filesystem::remove_all(tree_.root() / "kubelet");
    std::filesystem::remove_all(StateDir());
  }
}

}  // namespace
}  // namespace alignd::daemon
