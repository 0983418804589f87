// CreateContainer while the device plugin of the container has not registered: the call is held,
// and no container starts without a device that it requests.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "alignd/checkpoint/device_checkpoint.h"
#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

class DaemonWaits : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.plugin_patience = patience_;
    options.not_devices = not_devices_;
    options.kubelet_device_plugin_dir = tree_.root() / "kubelet" / "device-plugins";
    return options;
  }

  using Answered = Answer<v1::CreateContainerResponse>;
  std::future<Answered> CreateLater(const std::string& sandbox, const v1::PodSandboxConfig& pod,
                                    milliseconds deadline = kLong) {
    v1::CreateContainerRequest request;
    request.set_pod_sandbox_id(sandbox);
    *request.mutable_config() = Pinned(2);
    *request.mutable_sandbox_config() = pod;
    return std::async(std::launch::async, [this, request, deadline] {
      return Call<v1::CreateContainerResponse>("CreateContainer", request, deadline);
    });
  }
  // The message of the last decision about the pod.
  std::string Explained(const std::string& pod) const {
    const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain(pod, 1);
    if (!explained.ok() || explained->decisions().empty()) return "";
    return explained->decisions(0).message();
  }
  // RunPodSandbox has had that answer, and CreateContainer has come to it as well.
  // A call for one of its containers waits for the device plugin.
  bool AwaitHeld(const std::string& uid) const {
    return Eventually([&] {
      const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
      return status.ok() && std::ranges::any_of(status->pending(), [&](const auto& pending) {
               return pending.pod_uid() == uid && pending.until_unix_ms() > 0 &&
                      pending.message().find("has not registered yet") != std::string::npos;
             });
    });
  }
  static bool Says(const grpc::Status& status, const std::string& text) {
    return status.error_message().find(text) != std::string::npos;
  }

  static constexpr std::chrono::minutes kLong{10};
  milliseconds patience_ = kLong;
  std::optional<std::set<std::string>> not_devices_;
};

// By annotation, and by the Pods API.
TEST_F(DaemonWaits, CallIsHeldAndGoesOnWhenThePluginRegisters) {
  Start();
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  (*api)->SetPod(MakePod("static", {App("app", {{"cpu", "2"}, {"memory", "100Mi"}, {kGpu, "1"}})}));
  const v1::PodSandboxConfig annotated = PodConfig("annotated", "", Annotation(2, 1));
  const v1::PodSandboxConfig known = PodConfig("static");
  const std::string sandbox = Run(annotated);
  const std::string other = Run(known);  // is not held
  ASSERT_NE(sandbox, "");
  ASSERT_NE(other, "");
  auto first = CreateLater(sandbox, annotated);
  auto second = CreateLater(other, known);
  ASSERT_TRUE(AwaitHeld("annotated"));
  ASSERT_TRUE(Eventually([&] {
    return runtime_->Requests("RunPodSandbox").size() == 2 &&
           Explained("static").find("has not registered yet") != std::string::npos;
  }));
  EXPECT_EQ(RunOne(PodConfig("beside"), Pinned(2)).container.empty(), false);  // others pass
  EXPECT_EQ(runtime_->Requests("CreateContainer").size(), 1U);
  StartGpus();
  for (auto* const later : {&first, &second}) {
    const Answered created = later->get();
    ASSERT_TRUE(created.status.ok()) << created.status.error_message();
    const auto container = runtime_->FindContainer(created.response.container_id());
    ASSERT_TRUE(container);
    EXPECT_EQ(container->config.devices_size(), 1);
  }
}

TEST_F(DaemonWaits, CallerGetsTheReasonBeforeItsDeadline) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pod", "", Annotation(2, 1));
  const std::string sandbox = Run(pod);
  const auto created = CreateLater(sandbox, pod, seconds(8)).get();
  EXPECT_EQ(created.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(Says(created.status, "nvidia.com/gpu: its device plugin has not registered yet"))
      << created.status.error_message();
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());
  EXPECT_EQ(State().find("entries"), std::string::npos) << State();
}

TEST_F(DaemonWaits, IsRefusedWhenThePatienceIsOver) {
  patience_ = milliseconds(1);
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pod", "", Annotation(2, 1));
  const std::string sandbox = Run(pod);
  const auto created = CreateLater(sandbox, pod).get();
  EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(Says(created.status, "cannot allocate unregistered device nvidia.com/gpu"))
      << created.status.error_message();
  EXPECT_TRUE(Says(created.status, "--not-devices=nvidia.com/gpu"));
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());
}

TEST_F(DaemonWaits, CallThatIsCancelledIsDropped) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pod", "", Annotation(2, 1));
  const std::string sandbox = Run(pod);
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(sandbox);
  *request.mutable_config() = Pinned(2);
  *request.mutable_sandbox_config() = pod;
  testing::RawCall call(client_, "/runtime.v1.RuntimeService/CreateContainer");
  call.Write(request.SerializeAsString());
  call.WritesDone();
  ASSERT_TRUE(AwaitHeld("pod"));
  call.context().TryCancel();
  EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The pod has no call under way any more: it is released as soon as it is removed.
  EXPECT_TRUE(StopSandbox(sandbox).ok());
  EXPECT_TRUE(RemoveSandbox(sandbox).ok());
  StartGpus();
  const Running next = RunOne(PodConfig("next", "", Annotation(2, 1)), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "1-2");
  EXPECT_EQ(runtime_->Requests("CreateContainer").size(), 1U);
  EXPECT_EQ(State().find("\"pod\""), std::string::npos) << State();
}

TEST_F(DaemonWaits, StopAnswersHeldCallsInTime) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pod", "", Annotation(2, 1));
  const std::string sandbox = Run(pod);
  auto created = CreateLater(sandbox, pod);
  ASSERT_TRUE(AwaitHeld("pod"));
  daemon_.reset();
  const Answered answered = created.get();
  EXPECT_EQ(answered.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  // Not by the end of the connection.
  EXPECT_TRUE(
      Says(answered.status, "alignd is stopping; nvidia.com/gpu: its device plugin has not"))
      << answered.status.error_message();
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());
}

TEST_F(DaemonWaits, ResourceThatNoPluginServesIsNotAwaited) {
  not_devices_.emplace().insert(kGpu);
  Start();
  RunOne(PodConfig("pod", "", Annotation(2, 1)), Pinned(2));
}

TEST_F(DaemonWaits, TheConfigurationNamesResourcesThatNoPluginServes) {
  Start(StaticConfig(std::string("notDevices: [") + kGpu + "]\n"));
  RunOne(PodConfig("pod", "", Annotation(2, 1)), Pinned(2));
}

// A plugin that is registered with the kubelet only has given the container its devices.
TEST_F(DaemonWaits, DevicesOfTheKubeletsOwnPluginsAreNotAwaited) {
  devicemanager::DeviceState kubelets;
  kubelets.allocations[{"pod", "app"}][kGpu] = {.devices = {{0, {"GPU-0"}}},
                                                .response = std::string("\x0a\x00", 2)};
  const auto directory = DaemonOptions().kubelet_device_plugin_dir;
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "kubelet_internal_checkpoint")
      << checkpoint::FormatDeviceCheckpoint(kubelets);
  Start();
  RunOne(PodConfig("pod", "", Annotation(2, 1)), Pinned(2));
  const v1::PodSandboxConfig other = PodConfig("other", "", Annotation(2, 1));
  const std::string sandbox = Run(other);
  auto held = CreateLater(sandbox, other);
  EXPECT_TRUE(AwaitHeld("other"));
  daemon_.reset();
  EXPECT_EQ(held.get().status.error_code(), grpc::StatusCode::UNAVAILABLE);
}

}  // namespace
}  // namespace alignd::daemon
