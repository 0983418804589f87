// A start while the runtime hangs or is slow: alignd serves at once, and allocates nothing before
// it knows what runs.
#include <grpcpp/client_context.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "control/control_client.h"
#include "daemon_fixture.h"
#include "edge/logged.h"
#include "edge/status_conditions.h"
#include "podresources/v1/podresources.grpc.pb.h"

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

  std::optional<control::v1::Condition> Outage() const {
    const auto outages = testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                               reconcile::ConditionType::kRuntimeUnavailable);
    EXPECT_LE(outages.size(), 1U);
    return outages.empty() ? std::nullopt : std::optional(outages[0]);
  }

  milliseconds timeout_{kPatience};
};

TEST_F(DaemonHungRuntime, DoesNotHoldUpTheStart) {
  StartRuntime();
  SlowListings(seconds(600));
  const auto begin = std::chrono::steady_clock::now();
  StartDaemon();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
  // alignd answers its own calls; calls to the runtime end at their callers' deadlines.
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

TEST_F(DaemonHungRuntime, ContainersAreRefusedUntilItAnswers) {
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

// Which of the earlier pods still run, alignd learns from its first listing only.
TEST_F(DaemonHungRuntime, PodsBeforeTheFirstListingWaitForItAndGetNoCpusOfOthers) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running stays = RunOne(PodConfig("stays"), Pinned(3));
  const Running removed = RunOne(PodConfig("goes"), Pinned(20));
  const v1::PodSandboxConfig early = PodConfig("early");
  const std::string sandbox = Run(early);
  StopDaemon();
  client_ = *simulator::Dial(RuntimeEndpoint());
  ASSERT_TRUE(StopSandbox(removed.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(removed.sandbox).ok());
  SlowListings(milliseconds(300));
  StartDaemon();
  // By the state files alone, too few CPUs would be available for either.
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

// The update is for a container that alignd does not know yet.
TEST_F(DaemonHungRuntime, UpdateBeforeTheFirstListingKeepsTheAssignment) {
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

// Updates that fail are tried again after 1, 2, 4, 8 s; the last one would be due after 15 s.
TEST_F(DaemonHungRuntime, ContainersGetTheirCpusSoonAfterItAnswersAgain) {
  timeout_ = milliseconds(200);
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  ASSERT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  SlowListings(seconds(600));
  runtime_->SetDelay("UpdateContainerResources", seconds(600));
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  std::this_thread::sleep_for(milliseconds(8'500));
  EXPECT_EQ(CpusOf(shared.container), "0,4-27");
  runtime_->SetDelay("UpdateContainerResources", milliseconds(0));
  SlowListings(milliseconds(0));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(5));
}

// Each update costs a real runtime a process.
TEST_F(DaemonHungRuntime, FailedUpdatesAreRepeatedSixteenAtATime) {
  constexpr size_t kContainers = 40;
  constexpr size_t kAtOnce = 16;
  Start();
  std::vector<std::string> shared;
  for (size_t i = 0; i < kContainers; ++i) {
    shared.push_back(RunOne(BurstablePod("shared-" + std::to_string(i)), Shared()).container);
  }
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  const auto all_on = [&](const char* cpus) {
    return std::ranges::all_of(shared, [&](const auto& id) { return CpusOf(id) == cpus; });
  };
  ASSERT_TRUE(Eventually([&] { return all_on("0,4-27"); }));
  const std::vector<const char*> failing = {"Version", "ListPodSandbox", "ListContainers",
                                            "UpdateContainerResources"};
  for (const char* const method : failing) {
    runtime_->SetFailure(method, {grpc::StatusCode::UNAVAILABLE, "restarting"});
  }
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(pinned.sandbox).ok());
  const auto updates = [&] { return runtime_->Requests("UpdateContainerResources").size(); };
  size_t before = updates();
  ASSERT_TRUE(Eventually([&] { return updates() >= before + 2 * kContainers; }));
  // None ends. One counts for a second; in half of that, no second set of them may begin.
  runtime_->SetDelay("UpdateContainerResources", seconds(600));
  for (const char* const method : failing) runtime_->SetFailure(method, grpc::Status::OK);
  constexpr milliseconds kWindow{500};
  std::deque<std::pair<std::chrono::steady_clock::time_point, size_t>> seen;
  size_t most = 0;
  before = updates();
  ASSERT_TRUE(Eventually([&] {
    const auto asked = std::chrono::steady_clock::now();
    const size_t count = updates();
    const auto now = std::chrono::steady_clock::now();
    while (!seen.empty() && now - seen.front().first >= kWindow) seen.pop_front();
    if (!seen.empty()) most = std::max(most, count - seen.front().second);
    seen.emplace_back(asked, count);
    return count >= before + kContainers;
  }));
  EXPECT_LE(most, kAtOnce);
  EXPECT_GE(most, kAtOnce / 2);  // as many wait at any time
  runtime_->SetDelay("UpdateContainerResources", milliseconds(0));
  runtime_->EndDelays();
  EXPECT_TRUE(Eventually([&] { return all_on("0-27"); }));
}

// They come first, and 16 of them may begin in each second that the others hang.
TEST_F(DaemonHungRuntime, FailedUpdatesThatHangLeavePlacesToOthers) {
  constexpr size_t kContainers = 96;
  constexpr size_t kAtOnce = 16;
  const char* const kUpdate = "UpdateContainerResources";
  Start();
  std::vector<std::string> shared;
  for (size_t i = 0; i < kContainers; ++i) {
    shared.push_back(RunOne(BurstablePod("shared-" + std::to_string(i)), Shared()).container);
  }
  const Running first = RunOne(PodConfig("first"), Pinned(3));
  const Running second = RunOne(PodConfig("second"), Pinned(3));
  const auto all_on = [&](const std::string& cpus) {
    return std::ranges::all_of(shared, [&](const auto& id) { return CpusOf(id) == cpus; });
  };
  ASSERT_TRUE(Eventually([&] { return all_on("0,7-27"); }));
  const auto updates = [&] { return runtime_->Requests(kUpdate).size(); };
  runtime_->SetFailure(kUpdate, {grpc::StatusCode::UNAVAILABLE, "restarting"});
  size_t before = updates();
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(first.sandbox).ok());
  ASSERT_TRUE(Eventually([&] { return updates() >= before + 2 * kContainers; }));
  shared.push_back(RunOne(BurstablePod("late"), Shared()).container);
  runtime_->SetDelay(kUpdate, seconds(600));
  before = updates();
  ASSERT_TRUE(Eventually([&] { return updates() >= before + kAtOnce; }));
  ASSERT_TRUE(StopSandbox(second.sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(second.sandbox).ok());
  size_t earlier = 0;  // updates before that of the late one
  EXPECT_TRUE(Eventually([&] {
    const auto requests = runtime_->Requests(kUpdate);
    const auto of_late = std::ranges::find_if(requests, [&](const auto& request) {
      return request.bytes.find(shared.back()) != std::string::npos;
    });
    earlier = static_cast<size_t>(of_late - requests.begin());
    return of_late != requests.end();
  }));
  EXPECT_LT(earlier, before + 4 * kAtOnce);
  runtime_->SetFailure(kUpdate, grpc::Status::OK);
  runtime_->SetDelay(kUpdate, milliseconds(0));
  runtime_->EndDelays();
  EXPECT_TRUE(Eventually([&] { return all_on("0-27"); }));
}

// The assignments in the status are those of the state files, and may be outdated.
TEST_F(DaemonHungRuntime, StatusSaysThatItHasNotAnsweredSinceTheStart) {
  StartRuntime();
  SlowListings(seconds(600));
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return Outage().has_value(); }));
  const control::v1::Condition outage = *Outage();
  EXPECT_TRUE(outage.message().starts_with("the runtime has not answered for "))
      << outage.message();
  EXPECT_NE(outage.message().find("since alignd started"), std::string::npos) << outage.message();
  EXPECT_GE(outage.last_unix_ms() - outage.first_unix_ms(), 3'000);
}

// A listing that the stop cancels says nothing of the runtime.
TEST_F(DaemonHungRuntime, AStopDuringAListingIsNotLoggedAsAnOutage) {
  StartRuntime();
  SlowListings(seconds(600));
  testing::Logged logged;
  for (size_t i = 1; i <= 10; ++i) {  // the answer of the cancelled call may come too late to count
    StartDaemon();
    EXPECT_TRUE(Eventually([&] { return runtime_->Requests("Version").size() >= i; }));
    StopDaemon();
  }
  const std::string log = logged.Take();
  EXPECT_EQ(log.find("RuntimeUnavailable"), std::string::npos) << log;
}

class PodResourcesOfAHungRuntime : public DaemonHungRuntime {
 protected:
  // The pods in the answer of List, and whether it came within `deadline`.
  grpc::Status ListPods(::v1::ListPodResourcesResponse& pods, milliseconds deadline) const {
    const auto stub =
        ::v1::PodResourcesLister::NewStub(*simulator::Dial(DaemonOptions().PodResourcesSocket()));
    grpc::ClientContext context;
    context.set_wait_for_ready(true);
    context.set_deadline(std::chrono::system_clock::now() + deadline);
    return stub->List(&context, {}, &pods);
  }
};

TEST_F(PodResourcesOfAHungRuntime, AreAnsweredAtOnceAndListWhatRuns) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  SlowListings(seconds(600));
  ::v1::ListPodResourcesResponse pods;
  const grpc::Status listed = ListPods(pods, seconds(5));
  ASSERT_TRUE(listed.ok()) << listed.error_message();
  ASSERT_EQ(pods.pod_resources_size(), 1);
  EXPECT_EQ(pods.pod_resources(0).name(), "pod-pinned");
  EXPECT_EQ(pods.pod_resources(0).namespace_(), "default");
  ASSERT_EQ(pods.pod_resources(0).containers_size(), 1);
  EXPECT_EQ(pods.pod_resources(0).containers(0).name(), "app");
  EXPECT_EQ(pods.pod_resources(0).containers(0).cpu_ids_size(), 3);
}

// systemd kills a daemon that does not stop within TimeoutStopSec=15.
TEST_F(PodResourcesOfAHungRuntime, DoNotDelayTheStop) {
  timeout_ = seconds(10);
  Start();
  SlowListings(seconds(600));
  std::vector<std::future<void>> callers;
  for (int i = 0; i < 4; ++i) {
    callers.push_back(std::async(std::launch::async, [this] {
      ::v1::ListPodResourcesResponse pods;
      // Not OK if the daemon stops first.
      (void)ListPods(pods, kPatience);
    }));
  }
  std::this_thread::sleep_for(milliseconds(500));  // the calls have arrived
  const auto begin = std::chrono::steady_clock::now();
  StopDaemon();
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(8));
  for (std::future<void>& caller : callers) caller.get();
}

// The broken connection shows it: the next listing is an hour away.
TEST_F(DaemonHungRuntime, StatusSaysThatItIsUnavailableUntilItIsBack) {
  std::string config = StaticConfig();
  const std::string period = "cpuManagerReconcilePeriod: 2s";
  Start(config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 1h"));
  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_FALSE(Outage());
  runtime_.reset();
  ASSERT_TRUE(Eventually([&] { return Outage().has_value(); }));
  EXPECT_NE(Outage()->message().find("as of its last answer"), std::string::npos)
      << Outage()->message();
  watch_.Forget();
  StartRuntime();
  EXPECT_TRUE(Eventually([&] { return !Outage(); }));
}

}  // namespace
}  // namespace alignd::daemon
