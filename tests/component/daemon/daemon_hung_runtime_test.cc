// alignd starts while the runtime hangs or is slow: it serves at once, and allocates nothing whose
// state it does not know yet.
#include <gtest/gtest.h>

#include <future>
#include <optional>
#include <string>

#include "control/control_client.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonHungRuntime : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.runtime_timeout = timeout_;
    return options;
  }
  void SlowListings(milliseconds delay) {
    for (const char* const method : {"Version", "ListPodSandbox", "ListContainers"}) {
      runtime_->SetDelay(method, delay);
    }
  }

  std::optional<control::ConditionReport> Outage() const {
    const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
    EXPECT_TRUE(status.ok()) << status.error().Text();
    return status.ok() ? status->conditions.runtime_outage : std::nullopt;
  }

  milliseconds timeout_{kPatience};
};

TEST_F(DaemonHungRuntime, DoesNotHoldUpTheStart) {
  StartRuntime();
  SlowListings(seconds(600));
  const auto begin = std::chrono::steady_clock::now();
  StartDaemon();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
  // alignd's own services answer. Calls that the runtime must answer end at the caller's deadline.
  EXPECT_TRUE(control::ControlClient(DaemonOptions().ControlSocket()).GetStatus().ok());
  EXPECT_EQ(Call<v1::VersionResponse>("Version", v1::VersionRequest(), milliseconds(200))
                .status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  v1::CreateContainerRequest create;
  create.set_pod_sandbox_id("sandbox");
  *create.mutable_config() = Pinned(3);
  *create.mutable_sandbox_config() = pod;
  EXPECT_EQ(Call<v1::CreateContainerResponse>("CreateContainer", create, milliseconds(200))
                .status.error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(runtime_->Requests("CreateContainer").empty());
  const auto end = std::chrono::steady_clock::now();
  StopDaemon();
  EXPECT_LT(std::chrono::steady_clock::now() - end, kPatience / 3);
}

TEST_F(DaemonHungRuntime, ThatNeverAnswersIsUnavailableAndServedOnceItDoes) {
  timeout_ = milliseconds(500);
  StartRuntime();
  SlowListings(seconds(600));
  StartDaemon();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  EXPECT_EQ(Create("sandbox", pod, Pinned(3)).status.error_code(), grpc::StatusCode::UNAVAILABLE);
  SlowListings(milliseconds(0));
  const std::string sandbox = Run(pod);
  ASSERT_NE(sandbox, "");
  const auto created = Create(sandbox, pod, Pinned(3));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

// Only the first listing shows which allocations of before the restart still have a pod.
TEST_F(DaemonHungRuntime, PodsThatComeBeforeTheFirstListingWaitForItAndGetNothingOfOthers) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running stays = RunOne(PodConfig("stays"), Pinned(3));
  const Running removed = RunOne(PodConfig("goes"), Pinned(20));
  const v1::PodSandboxConfig early = PodConfig("early");
  const std::string sandbox = Run(early);
  StopDaemon();
  client_ = *rpc::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(removed.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(removed.sandbox).ok());
  SlowListings(milliseconds(300));
  StartDaemon();
  // According to the state files alone, neither pod would fit.
  auto create = std::async(std::launch::async, [&] { return Create(sandbox, early, Pinned(15)); });
  const Running late = RunOne(PodConfig("late"), Pinned(5));
  const auto created = create.get();
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(stays.container), "1-3");
  CpuSet all = *CpuSet::Parse("1-3");
  for (const std::string& id : {created.response.container_id(), late.container}) {
    const CpuSet cpus = *CpuSet::Parse(CpusOf(id));
    EXPECT_FALSE(all.Intersects(cpus)) << cpus.ToString();
    all |= cpus;
  }
  EXPECT_EQ(all.Count(), 23);
  EXPECT_TRUE(
      Eventually([&] { return !CpuSet::Parse(CpusOf(shared.container))->Intersects(all); }));
}

// alignd applies CPUs also to a container that it has not listed yet.
TEST_F(DaemonHungRuntime, UpdateThatComesBeforeTheFirstListingKeepsTheGrant) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  StopDaemon();
  SlowListings(milliseconds(300));
  StartDaemon();
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(pinned.container);
  request.mutable_linux()->set_cpuset_cpus("0-27");
  request.mutable_linux()->set_cpu_period(100'000);
  request.mutable_linux()->set_cpu_quota(300'000);
  ASSERT_TRUE(Update(request).ok());
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_EQ(runtime_->FindContainer(pinned.container)->resources.cpu_quota(), -1);
}

// The status shows the allocations of the state files; their pods may be gone.
TEST_F(DaemonHungRuntime, StatusSaysThatItHasNotAnsweredSinceTheStart) {
  StartRuntime();
  SlowListings(seconds(600));
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return Outage().has_value(); }));
  const control::ConditionReport outage = *Outage();
  EXPECT_NE(outage.text.find("has not answered yet"), std::string::npos) << outage.text;
  EXPECT_NE(outage.text.find("since alignd started"), std::string::npos) << outage.text;
  EXPECT_GE(outage.last_unix_ms - outage.first_unix_ms, 3'000);
}

// alignd notices the restart by the broken connection: the next listing is far away.
TEST_F(DaemonHungRuntime, StatusReportsTheMissingRuntimeUntilItIsBack) {
  std::string config = StaticConfig();
  const std::string period = "cpuManagerReconcilePeriod: 2s";
  Start(config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 1h"));
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_FALSE(Outage());
  runtime_.reset();
  ASSERT_TRUE(Eventually([&] { return Outage().has_value(); }));
  EXPECT_NE(Outage()->text.find("as of its last answer"), std::string::npos) << Outage()->text;
  watch_.Forget();
  StartRuntime();
  EXPECT_TRUE(Eventually([&] { return !Outage(); }));
}

}  // namespace
}  // namespace alignd::daemon
