// What can happen to a pod in its life.
#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <string>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

using DaemonPods = DaemonTest;

bool Holds(const std::string& state, const std::string& pod) {
  return state.find("\"" + pod + "\"") != std::string::npos;
}

TEST_F(DaemonPods, CompletedJobGivesItsCpusBackThoughItsSandboxStays) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running job = RunOne(PodConfig("job"), Pinned(3));
  ASSERT_TRUE(runtime_->EndContainer(job.container, 0));
  ASSERT_TRUE(StopSandbox(job.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return !Holds(State(), "job"); }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
  ASSERT_TRUE(RemoveSandbox(job.sandbox).ok());
}

TEST_F(DaemonPods, SandboxRecreatedUnderTheSameUidKeepsTheGrant) {
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
  client_ = *rpc::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  client_ = ours;
  EXPECT_TRUE(Eventually([&] { return !Holds(State(), "pinned"); }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
}

TEST_F(DaemonPods, ContainerRemovedBehindOurBackHoldsNobodyUp) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const std::shared_ptr<grpc::Channel> ours = client_;
  client_ = *rpc::Dial(RuntimeEndpoint());
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

TEST_F(DaemonPods, CallerWhoGivesUpFindsItsCpusAgain) {
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

// The node was switched off: the state files are of another life, and nothing runs.
TEST_F(DaemonPods, AfterARebootOldStateHoldsNothing) {
  Start();
  RunOne(PodConfig("static-pod"), Pinned(20));
  RunOne(PodConfig("gone"), Pinned(5));
  StopDaemon();
  runtime_.reset();
  watch_.Forget();
  ASSERT_TRUE(Holds(State(), "gone"));
  StartRuntime();
  StartDaemon();
  EXPECT_FALSE(Holds(State(), "gone")) << State();
  const Running big = RunOne(PodConfig("big"), Pinned(24));
  EXPECT_EQ(CpuSet::Parse(CpusOf(big.container))->Count(), 24);
}

// A runtime that still lists what ran before the reboot, as stopped: who needs the CPUs gets them.
TEST_F(DaemonPods, AfterARebootStoppedSandboxesAreInNobodysWay) {
  Start();
  const Running before = RunOne(PodConfig("before"), Pinned(20));
  StopDaemon();
  client_ = *rpc::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(before.sandbox).ok());
  StartDaemon();
  RunOne(PodConfig("after"), Pinned(24));
  EXPECT_FALSE(Holds(State(), "before")) << State();
}

}  // namespace
}  // namespace alignd::daemon
