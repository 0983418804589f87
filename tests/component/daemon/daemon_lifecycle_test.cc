// Start, stop and restart of the daemon, and changes in the runtime while it does not run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <string>
#include <thread>

#include "control/control_client.h"
#include "daemon/config_changes.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

using DaemonLifecycle = DaemonTest;

TEST_F(DaemonLifecycle, AfterARestartRunningPodsKeepTheirCpusAndVanishedPodsLoseThem) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running stays = RunOne(PodConfig("stays"), Pinned(3));
  const Running removed = RunOne(PodConfig("goes"), Pinned(2));
  ASSERT_EQ(CpusOf(shared.container), "0,6-27");
  StopDaemon();
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(removed.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(removed.sandbox).ok());
  StartDaemon();

  EXPECT_TRUE(Eventually([&] {
    return State().find(R"("entries":{"stays":{"app":"1-3"}})") != std::string::npos;
  })) << State();
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  EXPECT_EQ(CpusOf(stays.container), "1-3");
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "4-5");
}

TEST_F(DaemonLifecycle, ShowsItsConfigurationWithTheSourceOfEachField) {
  Start();
  const auto config = control::ControlClient(DaemonOptions().ControlSocket()).GetConfig();
  ASSERT_TRUE(config.ok()) << config.error().Text();
  EXPECT_EQ(config->config(), (tree_.root() / "config.yaml").string());
  std::map<std::string, std::string> fields;
  for (const auto& setting : config->settings()) {
    fields[setting.name()] = setting.value() + " " + setting.source();
  }
  EXPECT_EQ(fields["cpuManagerPolicy"], "static file");
  EXPECT_EQ(fields["cpuManagerReconcilePeriod"], "2s file");
  EXPECT_EQ(fields["memoryManagerPolicy"], "None default");
}

TEST_F(DaemonLifecycle, AfterARestartDecisionsAreStillExplained) {
  Start();
  RunOne(PodConfig("stays"), Pinned(3));
  const v1::PodSandboxConfig large = PodConfig("large");
  EXPECT_FALSE(Create(Run(large), large, Pinned(99)).status.ok());
  StopDaemon();
  StartDaemon();
  const control::ControlClient client(DaemonOptions().ControlSocket());
  const auto explained = client.Explain("", 10);
  ASSERT_TRUE(explained.ok()) << explained.error().Text();
  ASSERT_EQ(explained->decisions_size(), 2);
  EXPECT_EQ(explained->decisions(0).pod_uid(), "large");
  EXPECT_EQ(explained->decisions(0).outcome(), "refused");
  EXPECT_EQ(explained->decisions(1).pod_uid(), "stays");
  EXPECT_EQ(explained->decisions(1).assignments(0).exclusive_cpus(), "1-3");
  const auto pods = client.ListPods();
  ASSERT_TRUE(pods.ok()) << pods.error().Text();
  std::map<std::string, std::string>
      sources;  // `large` is among them once the runtime has answered
  for (const auto& pod : pods->pods()) sources[pod.pod_uid()] = pod.source();
  EXPECT_EQ(sources.count("stays"), 1U);
  EXPECT_NE(sources["stays"], "");
}

TEST_F(DaemonLifecycle, ContainerCreatedWithoutAligndGetsItsCpusBeforeItStarts) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::shared_ptr<grpc::Channel> ours = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  const v1::PodSandboxConfig pod = BurstablePod("unmanaged");
  const auto created = Create(Run(pod), pod, Shared());
  ASSERT_TRUE(created.status.ok());
  client_ = ours;
  ASSERT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "0,4-27");
}

TEST_F(DaemonLifecycle, ContainerCreatedWhileAligndWasDownGetsItsCpusBeforeItStarts) {
  Start();
  RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  client_ = *simulator::Dial(RuntimeEndpoint());
  const v1::PodSandboxConfig pod = BurstablePod("unmanaged");
  const auto created = Create(Run(pod), pod, Shared());
  StartDaemon();
  ASSERT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "0,4-27");
}

TEST_F(DaemonLifecycle, PodIsIdentifiedByItsSandboxIfTheCallDoesNotNameIt) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const std::string sandbox = Run(pod);
  v1::PodSandboxConfig nameless = pod;
  nameless.mutable_metadata()->clear_uid();
  const auto created = Create(sandbox, nameless, Pinned(2));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-2");
  EXPECT_NE(State().find(R"("pinned":{"app":"1-2"})"), std::string::npos) << State();
  // A pod with the same name does not get the CPUs of the other pod.
  const std::string other = Run(PodConfig("other"));
  const auto thief = Create(other, pod, Pinned(2));
  ASSERT_TRUE(thief.status.ok()) << thief.status.error_message();
  EXPECT_EQ(CpusOf(thief.response.container_id()), "3-4");
}

TEST_F(DaemonLifecycle, ContainersAreRefusedAtOnceWhileTheRuntimeIsDown) {
  StartDaemon();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const auto begin = std::chrono::steady_clock::now();
  const auto refused = Create("sandbox", pod, Pinned(3));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
  StartRuntime();
  std::string sandbox;
  ASSERT_TRUE(Eventually([&] { return !(sandbox = Run(pod)).empty(); }));
  Answer<v1::CreateContainerResponse> created;
  ASSERT_TRUE(Eventually([&] {
    created = Create(sandbox, pod, Pinned(3));
    return created.status.ok();
  }));
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

TEST_F(DaemonLifecycle, HangingPluginDelaysOnlyPodsThatRequestItsDevices) {
  Start();
  StartGpus();
  gpus_->SetManner(simulator::Manner::kHang);
  const v1::PodSandboxConfig wants = PodConfig("wants", "", Annotation(2, 1));
  // RunPodSandbox already waits for its answer.
  auto waiting = std::async(std::launch::async, [&] {
    v1::RunPodSandboxRequest request;
    *request.mutable_config() = wants;
    return Call<v1::RunPodSandboxResponse>("RunPodSandbox", request).status;
  });
  const Running other = RunOne(PodConfig("other"), Pinned(3));
  EXPECT_NE(CpusOf(other.container), "");
  EXPECT_EQ(waiting.wait_for(milliseconds(300)), std::future_status::timeout);
  EXPECT_EQ(runtime_->Requests("RunPodSandbox").size(), 1U);
  EXPECT_EQ(State().find("wants"), std::string::npos);  // not before the plugin has answered
  const auto begin = std::chrono::steady_clock::now();
  daemon_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
  EXPECT_FALSE(waiting.get().ok());
}

TEST_F(DaemonLifecycle, PreStartIsCalledAndItsFailureRefusesTheStart) {
  Start();
  StartGpus(/*pre_start=*/true);
  const v1::PodSandboxConfig pod = PodConfig("wants", "", Annotation(2, 1));
  const auto created = Create(Run(pod), pod, Pinned(2));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  gpus_->SetManner(simulator::Manner::kFail);
  EXPECT_FALSE(StartContainer(created.response.container_id()).ok());
  EXPECT_TRUE(runtime_->Requests("StartContainer").empty());
  gpus_->SetManner(simulator::Manner::kAnswer);
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  ASSERT_FALSE(gpus_->pre_starts().empty());
  EXPECT_EQ(gpus_->pre_starts().back(), std::vector<std::string>{kGpuOfNode0});
}

TEST_F(DaemonLifecycle, StopsQuicklyWhileTheRuntimeHangs) {
  Start();
  RunOne(BurstablePod("shared"), Shared());
  for (const char* method : {"UpdateContainerResources", "ListPodSandbox", "Status"}) {
    runtime_->SetDelay(method, seconds(60));
  }
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const auto created = Create(Run(pod), pod, Pinned(3));
  // StartContainer waits until the shared container has moved; another call waits for the runtime.
  auto start = std::async(std::launch::async,
                          [&] { return StartContainer(created.response.container_id()); });
  auto status = std::async(std::launch::async, [&] {
    return Call<v1::StatusResponse>("Status", v1::StatusRequest()).status;
  });
  ASSERT_TRUE(Eventually([&] {
    return !runtime_->Requests("UpdateContainerResources").empty() &&
           !runtime_->Requests("Status").empty();
  }));
  const auto begin = std::chrono::steady_clock::now();
  daemon_.reset();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
  EXPECT_FALSE(start.get().ok());
  EXPECT_FALSE(status.get().ok());
  EXPECT_TRUE(runtime_->Requests("StartContainer").size() == 1);
}

// An editor or an administrator may write the file at any moment of a start: the configuration that
// applies, and the text that alignd goes back to if a change fails, are of one reading.
TEST_F(DaemonLifecycle, TheConfigurationIsReadOnceAtTheStart) {
  Start();
  const std::string applied = ReadText(DaemonOptions().config);
  tree_.Write({"config.yaml", "cpuManagerPolicy: static\nreservedSystemCPUs: \"0-3\"\n"});
  const Options options = DaemonOptions();
  ConfigChanges changes(options, [] {});
  changes.Started(daemon_->StartedWith());
  const WantedChange change = changes.Take();
  EXPECT_EQ(change.applied, applied);
  ASSERT_TRUE(change.text.ok());
  EXPECT_NE(*change.text, applied);
  const auto node = changes.NodeFor(
      daemon_->node().machine, {.request = {}, .number = 0, .applied = {}, .text = change.applied});
  ASSERT_TRUE(node.ok()) << node.error().Text();
  EXPECT_EQ(node->config, daemon_->node().config);
}

TEST_F(DaemonLifecycle, SecondDaemonOnTheSameStateIsRefused) {
  Start();
  const auto second = Daemon::Start(DaemonOptions());
  EXPECT_FALSE(second.ok());
}

TEST_F(DaemonLifecycle, OneSocketForBothSidesIsRefused) {
  tree_.Write({"config.yaml", StaticConfig()});
  Options options = DaemonOptions();
  options.listen = "unix://" + RuntimeEndpoint();
  const auto started = Daemon::Start(options);
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(started.error().message.find("one socket"), std::string::npos);
}

TEST_F(DaemonLifecycle, UpdateThatTheKubeletSendsWhileThePoolShrinksDoesNotUndoTheMove) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  runtime_->SetDelay("UpdateContainerResources", milliseconds(300));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(shared.container);
  request.mutable_linux()->set_cpu_shares(2048);
  auto update = std::async(std::launch::async, [&] { return Update(request); });
  ASSERT_TRUE(Eventually([&] { return !runtime_->Requests("UpdateContainerResources").empty(); }));
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_TRUE(update.get().ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

}  // namespace
}  // namespace alignd::daemon
