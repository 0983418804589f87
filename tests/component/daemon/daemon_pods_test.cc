// The lifecycle of pods: restart, reboot, removal, debug containers, static pods.
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <future>
#include <set>
#include <string>
#include <vector>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

using DaemonPods = DaemonTest;

bool HasCpus(const std::string& state, const std::string& pod) {
  return state.find("\"" + pod + "\"") != std::string::npos;
}

TEST_F(DaemonPods, CompletedJobGivesItsCpusBackThoughItsSandboxStays) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running job = RunOne(PodConfig("job"), Pinned(3));
  ASSERT_TRUE(runtime_->EndContainer(job.container, 0));
  ASSERT_TRUE(StopSandbox(job.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return !HasCpus(State(), "job"); }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
  ASSERT_TRUE(RemoveSandbox(job.sandbox).ok());
}

TEST_F(DaemonPods, SandboxRecreatedUnderTheSameUidKeepsTheAssignment) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pod");
  const Running first = RunOne(pod, Pinned(3));
  RunOne(PodConfig("other"), Pinned(2));
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  const std::string second = Run(pod);
  ASSERT_TRUE(RemoveSandbox(first.sandbox).ok());
  v1::ContainerConfig again = Pinned(3);
  again.mutable_metadata()->set_attempt(1);
  const auto created = Create(second, pod, again);
  ASSERT_TRUE(created.status.ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
}

TEST_F(DaemonPods, PodRemovedBehindOurBackGivesItsCpusBack) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const std::shared_ptr<grpc::Channel> ours = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  client_ = ours;
  EXPECT_TRUE(Eventually([&] { return !HasCpus(State(), "pinned"); }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
}

TEST_F(DaemonPods, ContainerRemovedWithoutAligndDelaysNoOther) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const std::shared_ptr<grpc::Channel> ours = client_;
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(runtime_->EndContainer(shared.container, 0));
  v1::RemoveContainerRequest remove;
  remove.set_container_id(shared.container);
  ASSERT_TRUE(Call<v1::RemoveContainerResponse>("RemoveContainer", remove).status.ok());
  client_ = ours;
  RunOne(PodConfig("pinned"), Pinned(3));
}

TEST_F(DaemonPods, TwoPodsCreatedAtOnceNeverGetTheSameCpus) {
  Start();
  for (int round = 0; round < 10; ++round) {
    const v1::PodSandboxConfig pods[] = {PodConfig("a" + std::to_string(round)),
                                         PodConfig("b" + std::to_string(round))};
    const std::string sandboxes[] = {Run(pods[0]), Run(pods[1])};
    std::atomic<int> ready = 0;
    const auto create = [&](int i) {
      ++ready;
      while (ready < 2) std::this_thread::yield();
      return Create(sandboxes[i], pods[i], Pinned(13));
    };
    auto first = std::async(std::launch::async, create, 0);
    const auto b = create(1);
    const auto a = first.get();
    ASSERT_TRUE(a.status.ok() && b.status.ok()) << a.status.error_message() << '\n'
                                                << b.status.error_message();
    const CpuSet cpus_a = *CpuSet::Parse(CpusOf(a.response.container_id()));
    const CpuSet cpus_b = *CpuSet::Parse(CpusOf(b.response.container_id()));
    EXPECT_EQ(cpus_a.Count(), 13);
    EXPECT_EQ(cpus_b.Count(), 13);
    EXPECT_FALSE(cpus_a.Intersects(cpus_b));
    for (const std::string& sandbox : sandboxes) {
      ASSERT_TRUE(StopSandbox(sandbox).ok());
      ASSERT_TRUE(RemoveSandbox(sandbox).ok());
    }
  }
}

TEST_F(DaemonPods, CallerThatRetriesGetsTheSameCpus) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pod");
  const std::string sandbox = Run(pod);
  runtime_->SetDelay("CreateContainer", milliseconds(700));
  v1::CreateContainerRequest request;
  request.set_pod_sandbox_id(sandbox);
  *request.mutable_config() = Pinned(3);
  *request.mutable_sandbox_config() = pod;
  EXPECT_EQ(Call<v1::CreateContainerResponse>("CreateContainer", request, milliseconds(200))
                .status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  runtime_->SetDelay("CreateContainer", milliseconds(0));
  const Running other = RunOne(PodConfig("other"), Pinned(2));
  EXPECT_EQ(CpusOf(other.container), "4-5");
  const auto created = Create(sandbox, pod, Pinned(3));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

// After a reboot the state files are from before, and nothing runs.
TEST_F(DaemonPods, AfterARebootOldStateAllocatesNothing) {
  Start();
  RunOne(PodConfig("static-pod"), Pinned(20));
  RunOne(PodConfig("gone"), Pinned(5));
  StopDaemon();
  runtime_.reset();
  watch_.Forget();
  ASSERT_TRUE(HasCpus(State(), "gone"));
  StartRuntime();
  StartDaemon();
  EXPECT_TRUE(Eventually([&] { return !HasCpus(State(), "gone"); })) << State();
  const Running big = RunOne(PodConfig("big"), Pinned(24));
  EXPECT_EQ(CpuSet::Parse(CpusOf(big.container))->Count(), 24);
}

// The runtime still lists the containers of before the reboot, as stopped: their CPUs are free.
TEST_F(DaemonPods, AfterARebootStoppedSandboxesBlockNoCpus) {
  Start();
  const Running before = RunOne(PodConfig("before"), Pinned(20));
  StopDaemon();
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(before.sandbox).ok());
  StartDaemon();
  RunOne(PodConfig("after"), Pinned(24));
  EXPECT_TRUE(Eventually([&] { return !HasCpus(State(), "before"); })) << State();
}

// After a reboot the kubelet starts the same pods again, with the same UIDs, each in a new sandbox.
// They get their former CPUs, also if other pods came first.
TEST_F(DaemonPods, AfterARebootPodsThatComeBackAtOnceHaveTheirCpusAgain) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  const Running second = RunOne(PodConfig("second"), Pinned(5));
  StopDaemon();
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  ASSERT_TRUE(StopSandbox(second.sandbox).ok());
  StartDaemon();
  const Running other = RunOne(PodConfig("other"), Pinned(2));
  EXPECT_EQ(CpusOf(other.container), "9-10");
  EXPECT_EQ(CpusOf(RunOne(PodConfig("second"), Pinned(5)).container), "4-8");
  EXPECT_EQ(CpusOf(RunOne(PodConfig("first"), Pinned(3)).container), "1-3");
  ASSERT_TRUE(RemoveSandbox(first.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(second.sandbox).ok());
  EXPECT_TRUE(HasCpus(State(), "first") && HasCpus(State(), "second")) << State();
}

// The state files are from before the restart, and the runtime has lost everything. The order of
// pods and device plugin makes no difference.
TEST_F(DaemonPods, AfterARebootWithAnEmptyRuntimeNothingIsDoubleAndNothingLost) {
  for (const bool plugin_first : {true, false}) {
    SCOPED_TRACE(plugin_first);
    Start();
    StartGpus();
    const auto with_gpu = [](const std::string& uid) {
      return PodConfig(uid, "", Annotation(3, 1));
    };
    RunOne(with_gpu("a"), Pinned(3));
    RunOne(with_gpu("b"), Pinned(3));
    RunOne(PodConfig("c"), Pinned(20));
    RunOne(PodConfig("gone"), Pinned(1));
    StopDaemon();
    gpus_.reset();
    runtime_.reset();
    watch_.Forget();
    ASSERT_TRUE(HasCpus(State(), "gone") && HasCpus(State(), "c"));

    Start();
    if (plugin_first) StartGpus();
    std::vector<std::future<Running>> pods;
    for (const char* const uid : {"b", "a"}) {
      // The kubelet retries while the plugin is away.
      pods.push_back(std::async(std::launch::async, [this, pod = with_gpu(uid)] {
        Running running{Run(pod), ""};
        EXPECT_TRUE(Eventually([&] {
          running.container = Create(running.sandbox, pod, Pinned(3)).response.container_id();
          return !running.container.empty();
        }));
        EXPECT_TRUE(StartContainer(running.container).ok());
        return running;
      }));
    }
    const Running c = RunOne(PodConfig("c"), Pinned(20));
    if (!plugin_first) StartGpus();
    CpuSet all = *CpuSet::Parse(CpusOf(c.container));
    std::set<std::string> devices;
    for (auto& pod : pods) {
      const Running running = pod.get();
      const auto container = runtime_->FindContainer(running.container);
      ASSERT_TRUE(container);
      const CpuSet cpus = *CpuSet::Parse(container->resources.cpuset_cpus());
      EXPECT_FALSE(cpus.Intersects(all));
      all |= cpus;
      ASSERT_EQ(container->config.devices_size(), 1);
      devices.insert(container->config.devices(0).host_path());
    }
    EXPECT_EQ(all.Count(), 26);
    EXPECT_EQ(devices.size(), 2U);
    EXPECT_TRUE(Eventually([&] { return !HasCpus(State(), "gone"); })) << State();
    EXPECT_EQ(CpusOf(RunOne(PodConfig("last"), Pinned(1)).container).empty(), false);
    StopDaemon();
    gpus_.reset();
    runtime_.reset();
    watch_.Forget();
    std::filesystem::remove_all(StateDir());
  }
}

// A pod that has nothing in the runtime and is never removed.
TEST_F(DaemonPods, PodsThatCameToNothingAreForgotten) {
  Start();
  runtime_->SetFailure("RunPodSandbox", {grpc::StatusCode::UNKNOWN, "no network"});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(Run(PodConfig("p" + std::to_string(i), "",
                            R"({"init":{"init":true,"limits":{"cpu":"1","memory":"1Mi"}},)"
                            R"("app":{"limits":{"cpu":")" +
                                std::to_string(i % 2 == 0 ? 1 : 99) + R"(","memory":"1Mi"}}})")),
              "");
  }
  EXPECT_FALSE(daemon_->KnownPods().empty());
  EXPECT_TRUE(Eventually([&] { return daemon_->KnownPods().empty(); }));
  EXPECT_TRUE(Eventually([&] { return State().find("entries") == std::string::npos; })) << State();
}

// kubectl debug: an ephemeral container, which no source knows, on a full node.
TEST_F(DaemonPods, EphemeralContainerRunsInThePoolAndChangesNothing) {
  for (const char* const scope : {"container", "pod"}) {
    SCOPED_TRACE(scope);
    Start(StaticConfig(std::string("topologyManagerPolicy: single-numa-node\n") +
                       "topologyManagerScope: " + scope + "\n"));
    RunOne(PodConfig("rest"), Pinned(13));
    for (const std::string& annotation : {std::string(), Annotation(10, 0)}) {
      const std::string uid = annotation.empty() ? "plain" : "annotated";
      const v1::PodSandboxConfig pod = PodConfig(uid, "", annotation);
      const Running running = RunOne(pod, Pinned(annotation.empty() ? 4 : 10));
      const std::string cpus = CpusOf(running.container);
      const std::string state = State();
      for (const char* const name : {"debugger-1", "debugger-2"}) {
        v1::ContainerConfig debugger;
        debugger.mutable_metadata()->set_name(name);
        debugger.mutable_linux()->mutable_resources()->set_cpu_period(100'000);
        debugger.mutable_linux()->mutable_resources()->set_cpu_shares(2);
        debugger.mutable_linux()->mutable_resources()->set_oom_score_adj(-997);
        const auto created = Create(running.sandbox, pod, debugger);
        ASSERT_TRUE(created.status.ok()) << created.status.error_message();
        EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
        const CpuSet its = *CpuSet::Parse(CpusOf(created.response.container_id()));
        EXPECT_TRUE(its.Contains(CpuSet{0}));
        EXPECT_FALSE(its.Intersects(*CpuSet::Parse(cpus)));
        EXPECT_EQ(runtime_->FindContainer(created.response.container_id())->resources.cpu_quota(),
                  0);
      }
      // A kubelet does not resize it, but other programs can.
      v1::UpdateContainerResourcesRequest update;
      update.set_container_id(runtime_->Containers().back().id);
      *update.mutable_linux() = Pinned(1).linux().resources();
      const grpc::Status refused = Update(update);
      EXPECT_NE(refused.error_message().find("container debugger-2 of pod default/pod-" + uid +
                                             " has no CPU request and no limits, as an ephemeral "
                                             "container"),
                std::string::npos)
          << refused.error_message();
      EXPECT_EQ(State(), state);
      // The pod's own container restarts unchanged.
      ASSERT_TRUE(runtime_->EndContainer(running.container, 1));
      v1::ContainerConfig again = Pinned(annotation.empty() ? 4 : 10);
      again.mutable_metadata()->set_attempt(1);
      const auto restarted = Create(running.sandbox, pod, again);
      ASSERT_TRUE(restarted.status.ok()) << restarted.status.error_message();
      EXPECT_EQ(CpusOf(restarted.response.container_id()), cpus);
    }
    StopDaemon();
    runtime_.reset();
    watch_.Forget();
    std::filesystem::remove_all(StateDir());
  }
}

// A static pod as the kubelet creates it: a UID without dashes, which stays the same after a change
// of the manifest, and the host network. (The mirror pod in the API has another UID, which CRI
// never shows.)
TEST_F(DaemonPods, StaticPodOnTheNodesNetworkThatIsRemovedAndRestoredIsDecidedAnew) {
  Start();
  const std::string uid = "0f1e2d3c4b5a69788796a5b4c3d2e1f0";
  v1::PodSandboxConfig pod = PodConfig(uid);
  (*pod.mutable_annotations())["kubernetes.io/config.source"] = "file";
  (*pod.mutable_annotations())["kubernetes.io/config.hash"] = uid;
  v1::NamespaceOption& namespaces =
      *pod.mutable_linux()->mutable_security_context()->mutable_namespace_options();
  namespaces.set_network(v1::NODE);
  const Running before = RunOne(pod, Pinned(3));
  EXPECT_EQ(CpusOf(before.container), "1-3");
  const auto sandboxes = runtime_->Sandboxes();
  ASSERT_EQ(sandboxes.size(), 1U);
  EXPECT_TRUE(google::protobuf::util::MessageDifferencer::Equals(sandboxes[0].config, pod))
      << sandboxes[0].config.DebugString();
  ASSERT_TRUE(StopSandbox(before.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(before.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return !HasCpus(State(), uid); }));
  RunOne(PodConfig("between"), Pinned(2));
  EXPECT_EQ(CpusOf(RunOne(pod, Pinned(3)).container), "3-5");
}

}  // namespace
}  // namespace alignd::daemon
