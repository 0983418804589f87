// What the pod resources service lists while containers end and start again, compared with what the
// kubelet would list: the containers of active pods, with what they are assigned.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "control/control_client.h"
#include "daemon_fixture.h"
#include "podresources/v1/podresources.grpc.pb.h"
#include "podresources/v1alpha1/podresources.grpc.pb.h"

namespace alignd::daemon {
namespace {

class DaemonPodResources : public DaemonTest {
 protected:
  template <typename Response, typename Invoke>
  Response Ask(Invoke invoke) const {
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + kPatience);
    Response response;
    const grpc::Status status = invoke(context, response);
    EXPECT_TRUE(status.ok()) << status.error_message();
    return response;
  }
  std::shared_ptr<grpc::Channel> Channel() const {
    return *simulator::Dial(DaemonOptions().PodResourcesSocket());
  }
  ::v1::ListPodResourcesResponse List() const {
    return Ask<::v1::ListPodResourcesResponse>([this](auto& context, auto& response) {
      return ::v1::PodResourcesLister::NewStub(Channel())->List(&context, {}, &response);
    });
  }
  ::v1::PodResources Get(const std::string& pod) const {
    ::v1::GetPodResourcesRequest request;
    request.set_pod_name(pod);
    request.set_pod_namespace("default");
    return Ask<::v1::GetPodResourcesResponse>([&](auto& context, auto& response) {
             return ::v1::PodResourcesLister::NewStub(Channel())->Get(&context, request, &response);
           })
        .pod_resources();
  }
  ::v1alpha1::ListPodResourcesResponse ListAlpha() const {
    return Ask<::v1alpha1::ListPodResourcesResponse>([this](auto& context, auto& response) {
      return ::v1alpha1::PodResourcesLister::NewStub(Channel())->List(&context, {}, &response);
    });
  }

  // Pod `p`: an init container with that, and `app` with 2 CPUs and a GPU.
  static v1::PodSandboxConfig PodWithInit(int cpus, int gpus) {
    return PodConfig("p", "",
                     R"({"init":{"init":true,"limits":{"cpu":")" + std::to_string(cpus) +
                         R"(","memory":"100Mi","nvidia.com/gpu":)" + std::to_string(gpus) +
                         R"(}},"app":{"limits":{"cpu":"2","memory":"100Mi","nvidia.com/gpu":1}}})");
  }

  // Returns when a listing of the runtime that began after this call has been taken over.
  bool WaitForListing() const {
    const size_t before = runtime_->Requests("ListPodSandbox").size();
    return Eventually([&] { return runtime_->Requests("ListPodSandbox").size() >= before + 2; });
  }

  // "app: CPUs 2, nvidia.com/gpu 1; side: CPUs 1", by the name of the container.
  template <typename Pod>
  static std::string Describe(const Pod& pod) {
    std::string text;
    for (const auto& container : pod.containers()) {
      text += (text.empty() ? "" : "; ") + container.name() + ":";
      if constexpr (requires { container.cpu_ids(); }) {
        if (container.cpu_ids_size() > 0) {
          text += " CPUs " + std::to_string(container.cpu_ids_size());
        }
      }
      for (const auto& device : container.devices()) {
        text += " " + device.resource_name();
        for (const std::string& id : device.device_ids()) text += " " + id.substr(0, 6);
      }
    }
    return text;
  }
  // The pods in status, as "pod container".
  std::string Status() const {
    const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
    if (!status.ok()) return status.error().Text();
    std::string text;
    for (const auto& container : status->containers()) {
      text += (text.empty() ? "" : ", ") + container.container();
    }
    return text;
  }
};

TEST_F(DaemonPodResources, ListAContainerThatWaitsForItsNextStart) {
  Start();
  StartGpus();
  const Running pod = RunOne(PodConfig("crashing", "", Annotation(2, 1)), Pinned(2));
  const std::string expected = std::string("app: CPUs 2 nvidia.com/gpu ") + "GPU-77";
  ASSERT_EQ(Describe(Get("pod-crashing")), expected);
  ASSERT_TRUE(runtime_->EndContainer(pod.container, 1));
  ASSERT_TRUE(WaitForListing());
  ASSERT_EQ(List().pod_resources_size(), 1);
  EXPECT_EQ(Describe(List().pod_resources(0)), expected);
  EXPECT_EQ(Describe(Get("pod-crashing")), expected);
  ASSERT_EQ(ListAlpha().pod_resources_size(), 1);
  EXPECT_EQ(Describe(ListAlpha().pod_resources(0)), "app: nvidia.com/gpu GPU-77");
  EXPECT_EQ(Status(), "app");

  // Also after a restart of alignd.
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return List().pod_resources_size() == 1; }));
  EXPECT_EQ(Describe(Get("pod-crashing")), expected);

  ASSERT_TRUE(StopSandbox(pod.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pod.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return List().pod_resources_size() == 0; }));
}

TEST_F(DaemonPodResources, DoNotListInitContainers) {
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod = PodWithInit(/*cpus=*/4, /*gpus=*/2);
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Pinned(4, "init"));
  EXPECT_EQ(Describe(Get("pod-p")).find("app: CPUs 2 nvidia.com/gpu GPU-"), 0U)
      << Describe(Get("pod-p"));
  EXPECT_EQ(Describe(Get("pod-p")).find("init"), std::string::npos);
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  ASSERT_TRUE(WaitForListing());
  EXPECT_EQ(Describe(Get("pod-p")).find("init"), std::string::npos);
  const std::string app = CreateAndStart(sandbox, pod, Pinned(2, "app"));
  EXPECT_EQ(Describe(Get("pod-p")).find("app: CPUs 2 nvidia.com/gpu GPU-"), 0U)
      << Describe(Get("pod-p"));
  ASSERT_TRUE(runtime_->EndContainer(app, 1));
  ASSERT_TRUE(WaitForListing());
  EXPECT_EQ(Describe(Get("pod-p")).find("app: CPUs 2 nvidia.com/gpu GPU-"), 0U)
      << Describe(Get("pod-p"));
  EXPECT_EQ(Describe(Get("pod-p")).find("init"), std::string::npos);
}

// Once their resources are reused, ended init containers hold nothing of their own.
TEST_F(DaemonPodResources, NorDoesTheStatusCallItAHolder) {
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod = PodWithInit(/*cpus=*/2, /*gpus=*/1);
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Pinned(2, "init"));
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  CreateAndStart(sandbox, pod, Pinned(2, "app"));
  ASSERT_TRUE(WaitForListing());
  EXPECT_EQ(Status(), "app");
  EXPECT_EQ(Describe(Get("pod-p")), "app: CPUs 2 nvidia.com/gpu GPU-77");
  StopDaemon();
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return Status() == "app"; })) << Status();
  EXPECT_TRUE(
      Eventually([&] { return Describe(Get("pod-p")) == "app: CPUs 2 nvidia.com/gpu GPU-77"; }));
}

TEST_F(DaemonPodResources, AreServedInTheFirstVersionToo) {
  Start();
  StartGpus();
  RunOne(PodConfig("one", "", Annotation(2, 1)), Pinned(2));
  RunOne(BurstablePod("two"), Shared());
  const auto pods = ListAlpha();
  ASSERT_EQ(pods.pod_resources_size(), 2);
  EXPECT_EQ(pods.pod_resources(0).name(), "pod-one");
  EXPECT_EQ(pods.pod_resources(0).namespace_(), "default");
  EXPECT_EQ(Describe(pods.pod_resources(0)), "app: nvidia.com/gpu GPU-77");
  EXPECT_EQ(Describe(pods.pod_resources(1)), "app:");
}

}  // namespace
}  // namespace alignd::daemon
