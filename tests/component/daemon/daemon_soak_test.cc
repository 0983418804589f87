// Creates and removes up to 250 pods at random for ALIGND_SOAK_SECONDS, with restarts, failures and
// lost containers. Checks throughout that no CPU is allocated twice, lost, or shared with an
// exclusive container (the fixture sees every change of a container).
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "alignd/checkpoint/cpu_checkpoint.h"
#include "core/property_seed.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

constexpr int kCpus = 256;
constexpr int kNumaNodes = 8;
constexpr int kClients = 10;
constexpr int kPodsOfAClient = 25;

class DaemonSoak : public DaemonTest {
 protected:
  DaemonSoak() { tree_.Write({"node.json", NodeJson(kCpus, kNumaNodes)}); }

  struct Pod {
    v1::PodSandboxConfig config;
    std::string sandbox;
    std::string container;  // the last one that was created; empty: none
    v1::ContainerConfig container_config;
    bool stopped = false;
  };

  // A container of the pod, created and started. The failed update of another container may delay
  // it beyond the deadline: the kubelet would retry then.
  void Launch(Pod& pod, const v1::ContainerConfig& config) {
    const auto created = Create(pod.sandbox, pod.config, config);
    if (!created.status.ok()) {
      const grpc::StatusCode code = created.status.error_code();
      // The node is full, or the simulated runtime failed on request.
      EXPECT_TRUE(code == grpc::StatusCode::FAILED_PRECONDITION ||
                  code == grpc::StatusCode::ABORTED)
          << created.status.error_message();
      pod.container.clear();
      return;
    }
    pod.container = created.response.container_id();
    pod.container_config = config;
    const grpc::Status started = StartContainer(pod.container);
    EXPECT_TRUE(started.ok() || started.error_code() == grpc::StatusCode::UNAVAILABLE)
        << started.error_message();
    if (started.ok()) ++started_;
  }

  Pod NewPod(const std::string& uid, std::mt19937& random) {
    Pod pod;
    const int cpus = static_cast<int>(1 + random() % 3);
    switch (random() % 4) {
      case 0:
      case 1:
        pod.config = BurstablePod(uid);
        pod.container_config = Shared();
        break;
      case 2:
        pod.config = PodConfig(uid);
        pod.container_config = Pinned(cpus);
        break;
      default:
        pod.config = PodConfig(uid, "",
                               R"({"init":{"init":true,"limits":{"cpu":"4","memory":"100Mi"}},)"
                               R"("app":{"limits":{"cpu":")" +
                                   std::to_string(cpus) + R"(","memory":"100Mi"}}})");
        pod.container_config = Pinned(cpus);
    }
    pod.sandbox = Run(pod.config);
    EXPECT_FALSE(pod.sandbox.empty());
    if (!pod.config.annotations().empty()) {
      Launch(pod, Pinned(4, "init"));
      if (pod.container.empty()) return pod;
      runtime_->EndContainer(pod.container, 0);
      pod.container_config = Pinned(cpus);
    }
    Launch(pod, v1::ContainerConfig(pod.container_config));
    return pod;
  }

  void Restart(Pod& pod) {
    if (pod.container.empty() || pod.stopped) return;
    runtime_->EndContainer(pod.container, 1);
    v1::ContainerConfig again = pod.container_config;
    again.mutable_metadata()->set_attempt(again.metadata().attempt() + 1);
    Launch(pod, again);
  }

  // The update of a kubelet with a CPU manager of its own must change nothing.
  void Disturb(const Pod& pod) const {
    if (pod.container.empty() || pod.stopped) return;
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(pod.container);
    request.mutable_linux()->set_cpuset_cpus("0-255");
    request.mutable_linux()->set_memory_limit_in_bytes(1 << 28);
    Update(request);  // the simulated runtime may fail on request
  }

  void Remove(const Pod& pod, std::mt19937& random) const {
    if (random() % 8 == 0) {  // without alignd
      const std::string method = "/runtime.v1.RuntimeService/";
      v1::StopPodSandboxRequest stop;
      stop.set_pod_sandbox_id(pod.sandbox);
      v1::RemovePodSandboxRequest remove;
      remove.set_pod_sandbox_id(pod.sandbox);
      testing::CallUnary(direct_, (method + "StopPodSandbox").c_str(), stop.SerializeAsString());
      testing::CallUnary(direct_, (method + "RemovePodSandbox").c_str(),
                         remove.SerializeAsString());
      return;
    }
    EXPECT_TRUE(StopSandbox(pod.sandbox).ok());
    EXPECT_TRUE(RemoveSandbox(pod.sandbox).ok());
  }

  void Client(int client) {
    std::mt19937 random(static_cast<unsigned>(client));
    std::vector<Pod> pods;
    for (int i = 0; !over_; ++i) {
      if (pods.size() < kPodsOfAClient) {
        pods.push_back(NewPod("c" + std::to_string(client) + "-" + std::to_string(i), random));
        continue;
      }
      const size_t chosen = random() % pods.size();
      switch (random() % 6) {
        case 0:
          Restart(pods[chosen]);
          break;
        case 1:
          Disturb(pods[chosen]);
          break;
        case 2:
          EXPECT_TRUE(StopSandbox(pods[chosen].sandbox).ok());
          pods[chosen].stopped = true;
          break;
        default:
          Remove(pods[chosen], random);
          pods.erase(pods.begin() + static_cast<std::ptrdiff_t>(chosen));
      }
    }
    for (const Pod& pod : pods) Remove(pod, random);
  }

  // Every version of the file assigns each CPU exactly once.
  void CheckState() {
    const Result<checkpoint::CpuCheckpoint> file = checkpoint::ParseCpuCheckpoint(State());
    ASSERT_TRUE(file.ok()) << file.error().Text();
    CpuSet seen = file->state.default_set;
    int count = seen.Count();
    for (const auto& [uid, containers] : file->state.assignments) {
      CpuSet of_pod;
      for (const auto& [name, cpus] : containers) of_pod |= cpus;
      count += of_pod.Count();
      seen |= of_pod;
    }
    EXPECT_EQ(count, kCpus) << "a CPU is owned twice or lost: " << State();
    EXPECT_EQ(seen.Count(), kCpus) << State();
    most_known_ = std::max(most_known_, daemon_->KnownPods().size());
    ++checks_;
  }

  std::shared_ptr<grpc::Channel> direct_;
  std::atomic<bool> over_ = false;
  std::atomic<int> started_ = 0;
  int checks_ = 0;
  size_t most_known_ = 0;
};

TEST_F(DaemonSoak, NoCpuIsOwnedTwiceLostOrSharedWithAnExclusiveContainer) {
  Start();
  direct_ = *simulator::Dial(RuntimeEndpoint());
  const Running bystander = RunOne(BurstablePod("bystander"), Shared());
  std::vector<std::thread> clients;
  for (int client = 0; client < kClients; ++client) {
    clients.emplace_back([this, client] { Client(client); });
  }
  const auto end =
      std::chrono::steady_clock::now() + seconds(FromEnvironment("ALIGND_SOAK_SECONDS", 20));
  for (int round = 0; std::chrono::steady_clock::now() < end; ++round) {
    std::this_thread::sleep_for(milliseconds(100));
    CheckState();
    // The runtime fails or is slow at random.
    const grpc::Status mood(grpc::StatusCode::ABORTED, "not now");
    const bool bad = round % 20 == 10;
    runtime_->SetFailure("UpdateContainerResources", bad ? mood : grpc::Status::OK);
    runtime_->SetFailure("CreateContainer", round % 20 == 15 ? mood : grpc::Status::OK);
  }
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  runtime_->SetFailure("CreateContainer", grpc::Status::OK);
  over_ = true;
  for (std::thread& client : clients) client.join();
  CheckState();
  RecordProperty("containers_started", started_);
  EXPECT_GT(started_, kClients);
  EXPECT_LE(most_known_, kClients * kPodsOfAClient * 3);
  EXPECT_GT(checks_, 1);
  // All CPUs are released, also those of pods removed without alignd.
  const std::string all = "0-" + std::to_string(kCpus - 1);
  EXPECT_TRUE(Eventually([&] { return CpusOf(bystander.container) == all; }))
      << CpusOf(bystander.container) << " " << State();
  EXPECT_TRUE(Eventually([&] { return State().find("entries") == std::string::npos; })) << State();
  // The status shows no pods.
  EXPECT_TRUE(Eventually([&] { return daemon_->KnownPods().empty(); }))
      << daemon_->KnownPods().size();
}

}  // namespace
}  // namespace alignd::daemon
