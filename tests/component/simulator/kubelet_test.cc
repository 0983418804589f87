// The simulated kubelet, over a socket, with the embedded runtime.
#include "simulator/kubelet.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "edge/fake_tree.h"
#include "simulator/embedded_runtime.h"
#include "simulator/grpc_socket.h"

namespace alignd::simulator {
namespace {

constexpr char kPod[] =
    "metadata: {name: p, uid: u1}\n"
    "spec: {containers: [{name: a, image: i}, {name: b, image: i}]}\n";

class KubeletTest : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string endpoint = (tree_.root() / "cri.sock").string();
    auto runtime = EmbeddedRuntime::Start(endpoint);
    ASSERT_TRUE(runtime.ok()) << runtime.error().Text();
    runtime_ = *std::move(runtime);
    const auto channel = Dial(endpoint);
    ASSERT_TRUE(channel.ok()) << channel.error().Text();
    kubelet_ = std::make_unique<Kubelet>(*channel, KubeletSettings());
    auto manifest = ParsePodManifest(kPod);
    ASSERT_TRUE(manifest.ok()) << manifest.error().Text();
    manifest_ = *std::move(manifest);
  }

  std::vector<std::string> MethodsSince(size_t first) const {
    std::vector<std::string> methods;
    const auto requests = runtime_->Requests();
    for (size_t i = first; i < requests.size(); ++i) {
      methods.push_back(requests[i].method.substr(requests[i].method.rfind('/') + 1));
    }
    return methods;
  }

  const testing::FakeTree tree_;
  std::unique_ptr<EmbeddedRuntime> runtime_;
  std::unique_ptr<Kubelet> kubelet_;
  PodManifest manifest_;
};

TEST_F(KubeletTest, RunsAPodAndRemovesIt) {
  const auto run = kubelet_->Run(manifest_);
  ASSERT_TRUE(run.ok()) << run.error().Text();
  ASSERT_EQ(run->containers.size(), 2U);
  EXPECT_TRUE(run->containers[1].id.ok());
  EXPECT_EQ(MethodsSince(2),
            (std::vector<std::string>{"RunPodSandbox", "ImageStatus", "PullImage",
                                      "CreateContainer", "StartContainer", "ImageStatus",
                                      "CreateContainer", "StartContainer"}));

  const auto pods = kubelet_->List();
  ASSERT_TRUE(pods.ok()) << pods.error().Text();
  ASSERT_EQ(pods->size(), 1U);
  EXPECT_EQ(pods->front().uid, "u1");
  ASSERT_EQ(pods->front().containers.size(), 2U);
  EXPECT_EQ(pods->front().containers[0].name, "a");
  EXPECT_EQ(pods->front().containers[0].state, runtime::v1::CONTAINER_RUNNING);

  const size_t before = runtime_->Requests().size();
  const auto removed = kubelet_->Remove(pods->front(), std::chrono::seconds(1));
  ASSERT_TRUE(removed.ok()) << removed.error().Text();
  EXPECT_EQ(MethodsSince(before),
            (std::vector<std::string>{"StopContainer", "StopContainer", "StopPodSandbox",
                                      "RemoveContainer", "RemoveContainer", "RemovePodSandbox"}));
  EXPECT_TRUE(runtime_->Sandboxes().empty());
}

TEST_F(KubeletTest, ReportsARefusalAndContinuesWhenRunAgain) {
  runtime_->SetFailure("CreateContainer",
                       {grpc::StatusCode::FAILED_PRECONDITION, "Because: it does not fit"});
  const auto refused = kubelet_->Run(manifest_);
  ASSERT_TRUE(refused.ok()) << refused.error().Text();
  ASSERT_EQ(refused->containers.size(), 1U) << "no container after the refused one";
  EXPECT_EQ(refused->containers[0].id.error().message, "CreateContainer: Because: it does not fit");

  runtime_->SetFailure("CreateContainer", grpc::Status::OK);
  const auto run = kubelet_->Run(manifest_);
  ASSERT_TRUE(run.ok()) << run.error().Text();
  EXPECT_EQ(run->sandbox_id, refused->sandbox_id);
  EXPECT_EQ(runtime_->Containers().size(), 2U);

  ASSERT_TRUE(kubelet_->Run(manifest_).ok());
  EXPECT_EQ(runtime_->Containers().size(), 2U) << "running containers are not created again";
}

TEST_F(KubeletTest, PullsNoImageThatIsNeverToBePulled) {
  manifest_.containers.at("a").never_pull = true;
  const auto run = kubelet_->Run(manifest_);
  ASSERT_TRUE(run.ok()) << run.error().Text();
  ASSERT_EQ(run->containers.size(), 1U);
  EXPECT_EQ(run->containers[0].id.error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace alignd::simulator
