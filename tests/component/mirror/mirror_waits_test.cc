// What waits although the kubelet has admitted the pod: a plugin that is late.
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

}  // namespace
}  // namespace alignd::daemon
