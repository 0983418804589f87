// The emergency switch, and the report of a kubelet that does not use alignd.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <string>
#include <vector>

#include "cli/bypass_command.h"
#include "cli/status_command.h"
#include "control/control_client.h"
#include "daemon_fixture.h"
#include "edge/run_alignctl.h"
#include "mirror/marker.h"

namespace alignd::daemon {
namespace {

class BypassTest : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.kubelet_grace = milliseconds(1);
    if (mirrors_) {
      options.mirror.emplace(*mirror::ParseBindingMode("preferred"),
                             std::vector<mirror::BindingRule>());
      options.kubelet_plugins_registry = tree_.root() / "kubelet/plugins_registry";
      std::filesystem::create_directories(options.kubelet_plugins_registry);
    }
    return options;
  }
  testing::Printed Bypass(const std::string& action, std::vector<std::string> more = {}) const {
    std::vector<std::string> words = {"bypass", action, "--socket",
                                      DaemonOptions().ControlSocket()};
    words.insert(words.end(), more.begin(), more.end());
    return testing::RunAlignctl({cli::AddBypassCommand, cli::AddStatusCommand}, words);
  }
  // The names of the containers with that condition; "" for the node.
  std::vector<std::string> Subjects(const std::string& type) const {
    const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
    EXPECT_TRUE(status.ok()) << status.error().Text();
    std::vector<std::string> subjects;
    for (const auto& condition : status->conditions()) {
      if (condition.type() == type) subjects.push_back(condition.container_id());
    }
    return subjects;
  }

  bool mirrors_ = false;
};

TEST_F(BypassTest, RelaysNewContainersAsTheyComeUntilItIsTurnedOff) {
  Start();
  const Running before = RunOne(PodConfig("before"), Pinned(2));
  EXPECT_EQ(CpusOf(before.container), "1-2");
  EXPECT_EQ(Bypass("status").out, "bypass: off\n");
  EXPECT_EQ(Bypass("status").status, 0);
  EXPECT_EQ(Bypass("status", {"-o", "json"}).out,
            "{\"on\":false,\"since\":null,\"mirrors_devices\":false,\"ends_at_restart\":false}\n");
  const testing::Printed on = Bypass("on");
  EXPECT_EQ(on.status, 0) << on.err;
  EXPECT_TRUE(on.out.starts_with("bypass: on since 20")) << on.out;
  EXPECT_EQ(Bypass("status").status, 1);
  const testing::Printed yaml = Bypass("status", {"-o", "yaml"});
  EXPECT_TRUE(yaml.out.starts_with("\"on\": true\nsince: \"20")) << yaml.out;
  EXPECT_EQ(yaml.status, 1);
  EXPECT_EQ(Subjects("Bypass").size(), 1U);

  // More CPUs than the node has: alignd would refuse it. The request goes on byte by byte.
  const std::string sandbox = Run(PodConfig("meanwhile"));
  const size_t calls = runtime_->Requests("CreateContainer").size();
  const v1::ContainerConfig config = Pinned(99);
  const auto created = Create(sandbox, PodConfig("meanwhile"), config);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  ASSERT_EQ(runtime_->Requests("CreateContainer").size(), calls + 1);
  const std::string id = created.response.container_id();
  EXPECT_EQ(CpusOf(id), "");
  // It becomes unmanaged and is named; the CPUs of the older container stay withheld.
  v1::ContainerConfig shared = Shared("other");
  shared.mutable_linux()->mutable_resources()->set_cpuset_cpus("5-7");
  const auto other = Create(sandbox, PodConfig("meanwhile"), shared);
  ASSERT_TRUE(StartContainer(other.response.container_id()).ok());
  EXPECT_TRUE(Eventually([&] {
    return Subjects("UnmanagedContainer") ==
           std::vector<std::string>{other.response.container_id()};
  }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(other.response.container_id()) == "0,3-27"; }));
  EXPECT_NE(State().find("before"), std::string::npos);

  EXPECT_EQ(Bypass("off").out, "bypass: off\n");
  EXPECT_EQ(Subjects("Bypass").size(), 0U);
  const auto refused = Create(Run(PodConfig("after")), PodConfig("after"), Pinned(99));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  const Running after = RunOne(PodConfig("after-2"), Pinned(2));
  EXPECT_EQ(CpusOf(after.container), "3-4");
}

TEST_F(BypassTest, SurvivesARestartOfAlignd) {
  Start();
  ASSERT_EQ(Bypass("on").status, 0);
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(Bypass("status").status, 1);
  EXPECT_EQ(Subjects("Bypass").size(), 1U);
  ASSERT_EQ(Bypass("off").status, 0);
  StopDaemon();
  StartDaemon();
  EXPECT_EQ(Bypass("status").status, 0);
}

TEST_F(BypassTest, StaysOnIfTheRuntimeCannotBeListed) {
  Start();
  ASSERT_EQ(Bypass("on").status, 0);
  runtime_->SetFailure("ListContainers", {grpc::StatusCode::INTERNAL, "broken"});
  const testing::Printed off = Bypass("off");
  EXPECT_EQ(off.status, 1);
  EXPECT_NE(off.err.find("the bypass stays on: the container runtime could not be listed; start"),
            std::string::npos)
      << off.err;
  EXPECT_EQ(Bypass("status").status, 1);
  EXPECT_TRUE(Create(Run(PodConfig("a")), PodConfig("a"), Pinned(99)).status.ok());
  runtime_->SetFailure("ListContainers", grpc::Status::OK);
  EXPECT_EQ(Bypass("off").status, 0);
}

TEST_F(BypassTest, OffWaitsForRelayedCallsAndRefusesNewOnes) {
  Start();
  ASSERT_EQ(Bypass("on").status, 0);
  const std::string sandbox = Run(PodConfig("slow"));
  runtime_->SetDelay("CreateContainer", seconds(600));
  const size_t calls = runtime_->Requests("CreateContainer").size();
  auto relayed = std::async(std::launch::async,
                            [&] { return Create(sandbox, PodConfig("slow"), Pinned(99)).status; });
  ASSERT_TRUE(
      Eventually([&] { return runtime_->Requests("CreateContainer").size() == calls + 1; }));
  auto off = std::async(std::launch::async, [&] { return Bypass("off").status; });
  // Relayed until the first listing has ended, then refused. The container does not exist.
  EXPECT_TRUE(Eventually([&] {
    return StartContainer("no-such").error_message().find("is being turned off") !=
           std::string::npos;
  }));
  EXPECT_EQ(off.wait_for(milliseconds(0)), std::future_status::timeout);
  runtime_->EndDelays();
  EXPECT_TRUE(relayed.get().ok());
  EXPECT_EQ(off.get(), 0);
}

// The runtime creates the container although the kubelet does not wait for it any more.
TEST_F(BypassTest, OffWaitsForCallsThatTheKubeletHasCancelled) {
  Start();
  ASSERT_EQ(Bypass("on").status, 0);
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(Run(PodConfig("slow")));
  *request.mutable_config() = Pinned(99);
  *request.mutable_sandbox_config() = PodConfig("slow");
  runtime_->SetDelay("CreateContainer", seconds(2));
  const size_t calls = runtime_->Requests("CreateContainer").size();
  {
    testing::RawCall call(client_, "/runtime.v1.RuntimeService/CreateContainer");
    call.Write(request.SerializeAsString());
    call.WritesDone();
    ASSERT_TRUE(
        Eventually([&] { return runtime_->Requests("CreateContainer").size() == calls + 1; }));
    call.context().TryCancel();
    EXPECT_EQ(call.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  EXPECT_EQ(Bypass("off").status, 0);
  EXPECT_EQ(runtime_->Containers().size(), 1U);
}

TEST_F(BypassTest, IsOnIfItsFileCannotBeWritten) {
  Start();
  // A directory that is not empty cannot be replaced by a file, even by root.
  std::filesystem::create_directories(StateDir() / "bypass/full");
  const testing::Printed on = Bypass("on");
  EXPECT_EQ(on.status, 1);
  EXPECT_NE(on.err.find("the bypass is on, but it ends when alignd restarts"), std::string::npos)
      << on.err;
  const testing::Printed status = Bypass("status");
  EXPECT_EQ(status.status, 1);
  EXPECT_NE(status.out.find("The bypass ends when alignd restarts"), std::string::npos)
      << status.out;
  std::filesystem::remove_all(StateDir() / "bypass");
  EXPECT_EQ(Bypass("on").status, 0);
  EXPECT_EQ(Bypass("status").out.find("The bypass ends when alignd restarts"), std::string::npos);
  EXPECT_EQ(Bypass("off").status, 0);
}

TEST_F(BypassTest, AContainerThatIsCreatedAgainWithoutItsDevicesIsReported) {
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod = PodConfig("gpu", "", Annotation(2, 1));
  const Running first = RunOne(pod, Pinned(2));
  ASSERT_EQ(Bypass("on").status, 0);
  ASSERT_TRUE(runtime_->EndContainer(first.container, 1));
  v1::ContainerConfig config = Pinned(2);
  config.mutable_metadata()->set_attempt(1);
  const auto again = Create(first.sandbox, pod, config);
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  ASSERT_TRUE(StartContainer(again.response.container_id()).ok());
  EXPECT_TRUE(Eventually([&] {
    return Subjects("UnmanagedContainer") ==
           std::vector<std::string>{again.response.container_id()};
  }));
}

TEST_F(BypassTest, ACallThatIsUnderWayIsDecided) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("released");
  const Running running = RunOne(pod, Pinned(2));
  ASSERT_EQ(Bypass("on").status, 0);
  // What ends meanwhile is released by the listings.
  ASSERT_TRUE(StopSandbox(running.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(running.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return State().find("released") == std::string::npos; })) << State();
}

TEST_F(BypassTest, ContainersWithMirroredDevicesDoNotStartWithoutThem) {
  mirrors_ = true;
  Start();
  ASSERT_TRUE(Bypass("on").out.find("are refused") != std::string::npos);
  const v1::PodSandboxConfig pod = PodConfig("gpu");
  const std::string sandbox = Run(pod);
  v1::ContainerConfig config = Shared();
  const mirror::Annotation marker = mirror::FormatMarker({kGpu, {kGpuOfNode0}});
  (*config.mutable_annotations())[marker.key] = marker.value;
  const auto refused = Create(sandbox, pod, config);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find("run `alignctl bypass off`"), std::string::npos);
  EXPECT_TRUE(Create(sandbox, pod, Shared()).status.ok());
}

TEST_F(BypassTest, AKubeletThatDoesNotUseAligndIsReported) {
  Start();
  ASSERT_TRUE(RunOne(BurstablePod("ours"), Shared()).container != "");
  EXPECT_TRUE(Subjects("KubeletNotAttached").empty());
  // A container that the kubelet creates at the runtime's own socket.
  const auto aligned = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  RunOne(BurstablePod("theirs"), Shared());
  client_ = aligned;
  EXPECT_TRUE(Eventually([&] { return Subjects("KubeletNotAttached").size() == 1; }));
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(Call<v1::StatusResponse>("Status", v1::StatusRequest()).status.ok());
  }
  EXPECT_TRUE(Subjects("KubeletNotAttached").empty());
}

}  // namespace
}  // namespace alignd::daemon
