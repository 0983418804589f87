// The shared pool: which containers lose CPUs, which get CPUs back, and which calls wait for it.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "daemon_fixture.h"
#include "edge/status_conditions.h"

namespace alignd::daemon {
namespace {

class DaemonPool : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    if (timeout_) options.runtime_timeout = *timeout_;
    return options;
  }
  std::vector<control::v1::Condition> Reported(reconcile::ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  std::vector<control::v1::Condition> FailedUpdates() const {
    return Reported(reconcile::ConditionType::kCpusetUpdateFailed);
  }
  size_t UpdatesOf(const std::string& container) const {
    const auto requests = runtime_->Requests("UpdateContainerResources");
    return static_cast<size_t>(std::ranges::count_if(requests, [&](const auto& request) {
      return request.bytes.find(container) != std::string::npos;
    }));
  }

  std::optional<milliseconds> timeout_;  // of alignd's calls to the runtime
};

TEST_F(DaemonPool, OnlyContainersWhoseSetChangesAreUpdated) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  RunOne(PodConfig("second"), Pinned(2));
  RunOne(BurstablePod("late"), Shared());
  EXPECT_EQ(UpdatesOf(first.container), 0U);
  EXPECT_EQ(UpdatesOf(shared.container), 1U);
  EXPECT_EQ(runtime_->Requests("UpdateContainerResources").size(), 1U);
}

TEST_F(DaemonPool, HangingUpdateDelaysOnlyContainersThatNeedThoseCpus) {
  Start();
  const v1::PodSandboxConfig first_pod = PodConfig("first");
  const Running first = RunOne(first_pod, Pinned(3));
  const Running stuck = RunOne(BurstablePod("stuck"), Shared());
  const Running other = RunOne(BurstablePod("other"), Shared());
  runtime_->SetDelay("UpdateContainerResources", seconds(60), stuck.container);
  const v1::PodSandboxConfig second_pod = PodConfig("second");
  const auto second = Create(Run(second_pod), second_pod, Pinned(2));
  ASSERT_TRUE(second.status.ok());
  auto start = std::async(std::launch::async,
                          [&] { return StartContainer(second.response.container_id()); });
  ASSERT_TRUE(Eventually([&] { return UpdatesOf(stuck.container) > 0; }));

  // Other containers are moved. Containers that do not need its CPUs start.
  EXPECT_TRUE(Eventually([&] { return CpusOf(other.container) == "0,6-27"; }));
  RunOne(BurstablePod("shared"), Shared());
  ASSERT_TRUE(runtime_->EndContainer(first.container, 1));
  v1::ContainerConfig again = Pinned(3);
  again.mutable_metadata()->set_attempt(1);
  const auto restarted = Create(first.sandbox, first_pod, again);
  ASSERT_TRUE(restarted.status.ok());
  EXPECT_TRUE(StartContainer(restarted.response.container_id()).ok());
  EXPECT_EQ(start.wait_for(milliseconds(0)), std::future_status::timeout);

  // After it is removed, nothing uses these CPUs.
  v1::RemoveContainerRequest remove;
  remove.set_container_id(stuck.container);
  ASSERT_TRUE(runtime_->EndContainer(stuck.container, 0));
  ASSERT_TRUE(Call<v1::RemoveContainerResponse>("RemoveContainer", remove).status.ok());
  EXPECT_TRUE(start.get().ok());
}

// The number of concurrent updates is limited. Updates that hang do not delay the others, also
// without a listing: its period is long here.
TEST_F(DaemonPool, ManyHangingUpdatesDelayNoOtherContainer) {
  std::string config = StaticConfig();
  const std::string period = "cpuManagerReconcilePeriod: 2s";
  Start(config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 10m"));
  constexpr size_t kContainers = 40;
  for (size_t i = 0; i < kContainers; ++i) {
    RunOne(BurstablePod("shared-" + std::to_string(i)), Shared());
  }
  runtime_->SetDelay("UpdateContainerResources", seconds(60));
  const v1::PodSandboxConfig pod = PodConfig("exclusive");
  ASSERT_TRUE(Create(Run(pod), pod, Pinned(3)).status.ok());
  EXPECT_TRUE(Eventually(
      [&] { return runtime_->Requests("UpdateContainerResources").size() == kContainers; }));
}

TEST_F(DaemonPool, DelayedStartNamesTheContainerAndTheReason) {
  timeout_ = 2 * kPatience;  // longer than the test waits
  Start();
  const Running broken = RunOne(BurstablePod("broken"), Shared("log"));
  const Running stuck = RunOne(BurstablePod("stuck"), Shared("web"));
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::UNKNOWN, "out of order"},
                       broken.container);
  runtime_->SetDelay("UpdateContainerResources", seconds(60), stuck.container);
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const auto created = Create(Run(pod), pod, Pinned(3));
  ASSERT_TRUE(created.status.ok());
  auto started = std::async(std::launch::async,
                            [&] { return StartContainer(created.response.container_id()); });
  ASSERT_TRUE(Eventually([&] {
    const auto failed = FailedUpdates();
    return std::ranges::any_of(failed, [&](const control::v1::Condition& condition) {
      return condition.container_id() == stuck.container && condition.times() == 0 &&
             condition.message().find("the runtime has not answered for ") != std::string::npos;
    });
  }));
  const grpc::Status status = started.get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  for (const char* const text :
       {"the exclusive CPUs 1-3 of container app of pod default/pod-pinned are still used",
        "container log of pod default/pod-broken (runtime: UpdateContainerResources: out of order",
        "container web of pod default/pod-stuck (the runtime has not answered for ",
        "`alignctl status`"}) {
    EXPECT_NE(status.error_message().find(text), std::string::npos) << status.error_message();
  }
  for (const std::string& id :
       {broken.container, stuck.container, created.response.container_id()}) {
    EXPECT_EQ(status.error_message().find(id), std::string::npos) << status.error_message();
  }
}

TEST_F(DaemonPool, FailedUpdateIsRetriedAndReportedUntilItIsDone) {
  Start();
  const Running stuck = RunOne(BurstablePod("stuck"), Shared());
  const Running other = RunOne(BurstablePod("other"), Shared());
  runtime_->SetFailure("UpdateContainerResources", {grpc::StatusCode::UNKNOWN, "out of order"},
                       stuck.container);
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const auto created = Create(Run(pod), pod, Pinned(3));
  ASSERT_TRUE(created.status.ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(other.container) == "0,4-27"; }));
  ASSERT_TRUE(Eventually([&] { return !FailedUpdates().empty(); }));
  const auto failed = FailedUpdates();
  ASSERT_EQ(failed.size(), 1U);
  EXPECT_EQ(failed[0].container_id(), stuck.container);
  EXPECT_EQ(failed[0].pod_uid(), "stuck");
  EXPECT_TRUE(failed[0].message().starts_with("not moved to CPUs 0,4-27: ")) << failed[0].message();
  EXPECT_NE(failed[0].message().find("out of order"), std::string::npos) << failed[0].message();
  runtime_->SetFailure("UpdateContainerResources", grpc::Status::OK);
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(stuck.container), "0,4-27");
  EXPECT_TRUE(FailedUpdates().empty());
}

TEST_F(DaemonPool, EmptyPoolLeavesTheReservedCpusAndRegainsTheRest) {
  Start(StaticConfig("cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n"));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  EXPECT_EQ(CpusOf(shared.container), "1-27");
  const Running all = RunOne(PodConfig("all"), Pinned(27));
  EXPECT_EQ(CpusOf(shared.container), "0");
  const Running late = RunOne(BurstablePod("late"), Shared());
  EXPECT_EQ(CpusOf(late.container), "0");
  ASSERT_TRUE(StopSandbox(all.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(all.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "1-27"; }));
  EXPECT_TRUE(Eventually([&] { return CpusOf(late.container) == "1-27"; }));
}

TEST_F(DaemonPool, WithoutStrictReservationTheReservedCpusStayShared) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  RunOne(PodConfig("all"), Pinned(27));
  EXPECT_EQ(CpusOf(shared.container), "0");
}

// The listing hangs. A container whose cpuset has changed since starts all the same.
TEST_F(DaemonPool, SharedContainerDoesNotWaitForAReconcile) {
  Start();
  const v1::PodSandboxConfig pod = BurstablePod("shared");
  const auto shared = Create(Run(pod), pod, Shared());
  ASSERT_TRUE(shared.status.ok());
  runtime_->SetDelay("ListPodSandbox", seconds(60));
  const size_t listings = runtime_->Requests("ListPodSandbox").size();
  ASSERT_TRUE(Eventually([&] { return runtime_->Requests("ListPodSandbox").size() > listings; }));
  const size_t hanging = runtime_->Requests("ListPodSandbox").size();
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_TRUE(StartContainer(shared.response.container_id()).ok());
  EXPECT_EQ(CpusOf(shared.response.container_id()), "0,4-27");
  EXPECT_EQ(runtime_->Requests("ListPodSandbox").size(), hanging);  // still the same
}

// The container requests exclusive CPUs, but was created without alignd.
TEST_F(DaemonPool, UnmanagedContainerIsSharedAndReported) {
  Start();
  const auto unmanaged = [this] { return Reported(reconcile::ConditionType::kUnmanagedContainer); };
  // Answered after the first listing: that listing shows containers from before the start.
  RunOne(BurstablePod("shared"), Shared());
  client_ = *simulator::Dial(RuntimeEndpoint());
  const Running strange = RunOne(PodConfig("strange"), Pinned(3));
  client_ = *simulator::Dial(DaemonOptions().listen);
  ASSERT_TRUE(Eventually([&] { return unmanaged().size() == 1; }));
  const control::v1::Condition condition = unmanaged()[0];
  EXPECT_EQ(condition.container_id(), strange.container);
  EXPECT_EQ(condition.pod(), "default/pod-strange");
  EXPECT_NE(condition.remedy().find("alignctl kubelet attach"), std::string::npos)
      << condition.remedy();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(CpusOf(strange.container), "0,4-27");
  EXPECT_EQ(unmanaged().size(), 1U);
  ASSERT_TRUE(StopSandbox(strange.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(strange.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return unmanaged().empty(); }));
}

TEST_F(DaemonPool, CpusetsOfTheCallerForAWholePodAreRemoved) {
  Start(
      StaticConfig("memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
                   "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
                   "topologyManagerPolicy: best-effort\n"));
  const auto passed_on = [this](const std::string& sandbox) {
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(sandbox);
    request.mutable_resources()->set_cpuset_cpus("5");
    request.mutable_resources()->set_cpuset_mems("1");
    request.mutable_resources()->set_cpu_shares(7);
    Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request);
    v1::UpdatePodSandboxResourcesRequest seen;
    EXPECT_TRUE(seen.ParseFromString(runtime_->Requests("UpdatePodSandboxResources").back().bytes));
    const v1::LinuxContainerResources& now = seen.resources();
    return now.cpuset_cpus() + "/" + now.cpuset_mems() + "/" + std::to_string(now.cpu_shares());
  };
  EXPECT_EQ(passed_on(RunOne(PodConfig("pinned"), Pinned(3)).sandbox), "//7");
  EXPECT_EQ(passed_on(RunOne(BurstablePod("shared"), Shared()).sandbox), "/1/7");
  const auto signs = Reported(reconcile::ConditionType::kConflictingCpuManager);
  ASSERT_EQ(signs.size(), 1U);
  EXPECT_EQ(signs[0].message(),
            "UpdatePodSandboxResources comes with CPU sets of the caller's own");
}

TEST_F(DaemonPool, PodWithExclusiveCpusStaysWithoutQuotaWhenItIsResized) {
  Start();
  for (const auto& [uid, container, quota] :
       {std::tuple{"pinned", Pinned(3), -1}, std::tuple{"shared", Shared(), 400'000}}) {
    const Running running = RunOne(PodConfig(uid), container);
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(running.sandbox);
    request.mutable_resources()->set_cpu_quota(400'000);
    request.mutable_resources()->set_memory_limit_in_bytes(1);
    Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request);
    v1::UpdatePodSandboxResourcesRequest seen;
    ASSERT_TRUE(seen.ParseFromString(runtime_->Requests("UpdatePodSandboxResources").back().bytes));
    EXPECT_EQ(seen.resources().cpu_quota(), quota) << uid;
    EXPECT_EQ(seen.resources().memory_limit_in_bytes(), 1);
  }
}

}  // namespace
}  // namespace alignd::daemon
