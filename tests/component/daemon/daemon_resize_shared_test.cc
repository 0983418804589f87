// In-place resize from exclusive CPUs to shared ones and back. The fixture checks after every
// change of a container that no container runs on exclusive CPUs of another.
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include "control/control_client.h"
#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

constexpr char kUpdates[] = "UpdateContainerResources";
constexpr int64_t kHundredMi = 100 * 1024 * 1024;

class DaemonResizeShared : public DaemonTest {
 protected:
  static v1::LinuxContainerResources Amount(int64_t millis) {
    return podsource::Kubelet(millis, millis, kHundredMi).linux().resources();
  }
  static v1::ContainerConfig Sized(int64_t millis, uint32_t attempt = 0) {
    v1::ContainerConfig config = Pinned(0);
    *config.mutable_linux()->mutable_resources() = Amount(millis);
    config.mutable_metadata()->set_attempt(attempt);
    return config;
  }
  grpc::Status Resize(const Running& running, int64_t millis,
                      milliseconds deadline = kPatience) const {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(running.container);
    *request.mutable_linux() = Amount(millis);
    return Call<v1::UpdateContainerResourcesResponse>(kUpdates, request, deadline).status;
  }
  grpc::Status PodStep(const Running& running, int64_t millis) const {
    v1::UpdatePodSandboxResourcesRequest request;
    request.set_pod_sandbox_id(running.sandbox);
    *request.mutable_resources() = Amount(millis);
    return Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request).status;
  }
  bool Becomes(const Running& running, const std::string& cpus) const {
    return Eventually([&] { return CpusOf(running.container) == cpus; });
  }
  int64_t QuotaOf(const Running& running) const {
    return runtime_->FindContainer(running.container)->resources.cpu_quota();
  }
  std::string Originals() const { return ReadText(StateDir() / "cpu_originals"); }
  bool HasEntry(const std::string& entry) const { return State().find(entry) != std::string::npos; }
  std::vector<control::v1::Condition> ConditionsOfType(reconcile::ConditionType type) const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(), type);
  }
  void Restart() {
    StopDaemon();
    StartDaemon();
  }
  void CheckCallThatIsLost(const std::string& config, const std::string& reserved,
                           bool restarts = false);
};

// The runtime does not answer the call that resizes the container to shared CPUs: it has no quota
// yet, and others stay off its CPUs, however long that lasts. `reserved`: as part of the pool.
// `restarts`: alignd meanwhile, and nothing but the runtime's record says where it is.
void DaemonResizeShared::CheckCallThatIsLost(const std::string& config, const std::string& reserved,
                                             bool restarts) {
  Start(config);
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(restarts ? 500 : 2000));
  ASSERT_TRUE(!restarts || Resize(app, 2000).ok());
  ASSERT_EQ(CpusOf(app.container), "1-2");
  ASSERT_TRUE(Becomes(shared, reserved + "3-27"));
  runtime_->SetDelay(kUpdates, std::chrono::seconds(600), app.container);
  EXPECT_EQ(Resize(app, 500, milliseconds(300)).error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_FALSE(HasEntry("\"app\"")) << State();
  if (restarts) {
    StopDaemon();
    StartDaemon(config);
  }
  std::this_thread::sleep_for(std::chrono::seconds(1));  // deferred updates begin after 0.2 s
  EXPECT_EQ(CpusOf(app.container), "1-2");
  EXPECT_EQ(CpusOf(shared.container), reserved + "3-27");
  // The kubelet repeats the call.
  runtime_->SetDelay(kUpdates, milliseconds(0), app.container);
  EXPECT_TRUE(Resize(app, 500).ok());
  EXPECT_EQ(QuotaOf(app), 50'000);
  runtime_->EndDelays();
  const std::string pool = reserved.empty() ? "1-27" : "0-27";
  EXPECT_TRUE(Becomes(app, pool));
  EXPECT_TRUE(Becomes(shared, pool));
}

TEST_F(DaemonResizeShared, OthersComeOntoItsCpusOnceTheRuntimeHasAnswered) {
  CheckCallThatIsLost(StaticConfig(), "0,");
}

TEST_F(DaemonResizeShared, OthersComeOntoItsCpusOnceTheRuntimeHasAnsweredAfterARestart) {
  CheckCallThatIsLost(StaticConfig(), "0,", /*restarts=*/true);
}

TEST_F(DaemonResizeShared, OthersComeOntoItsCpusOnceTheRuntimeHasAnsweredWithStrictReservation) {
  CheckCallThatIsLost(StaticConfig("cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n"),
                      "");
}

TEST_F(DaemonResizeShared, ToSharedCpusAndBack) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  ASSERT_EQ(CpusOf(app.container), "1-2");
  ASSERT_TRUE(Becomes(shared, "0,3-27"));

  grpc::Status status = Resize(app, 500);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(QuotaOf(app), 50'000);
  EXPECT_FALSE(HasEntry("\"app\"")) << State();
  EXPECT_TRUE(Originals().starts_with(R"({"entries":{"app":{"app":""}})")) << Originals();
  EXPECT_TRUE(Becomes(app, "0-27"));
  EXPECT_TRUE(Becomes(shared, "0-27"));
  EXPECT_TRUE(Resize(app, 1500).ok());
  EXPECT_EQ(QuotaOf(app), 150'000);

  status = Resize(app, 3000);
  ASSERT_TRUE(status.ok()) << status.error_message();
  EXPECT_EQ(CpusOf(app.container), "1-3");
  EXPECT_EQ(QuotaOf(app), -1);
  EXPECT_EQ(CpusOf(shared.container), "0,4-27");
  EXPECT_TRUE(HasEntry(R"("app":{"app":"1-3"})")) << State();
  // It was not created with these.
  EXPECT_TRUE(Resize(app, 1000).ok());
  EXPECT_EQ(CpusOf(app.container), "1");
  ASSERT_TRUE(RemoveSandbox(app.sandbox).ok());
  EXPECT_TRUE(Becomes(shared, "0-27"));
  EXPECT_TRUE(Eventually([&] { return Originals().starts_with(R"({"entries":{},)"); }));
}

TEST_F(DaemonResizeShared, ContainerThatWasCreatedInTheSharedPoolGetsExclusiveCpus) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(500));
  const Running other = RunOne(PodConfig("other"), Sized(1500));
  auto first = std::async(std::launch::async, [&] { return Resize(app, 2000); });
  auto second = std::async(std::launch::async, [&] { return Resize(other, 2000); });
  EXPECT_TRUE(first.get().ok());
  EXPECT_TRUE(second.get().ok());
  EXPECT_EQ(QuotaOf(app), -1);
  const CpuSet both =
      *CpuSet::Parse(CpusOf(app.container)) | *CpuSet::Parse(CpusOf(other.container));
  EXPECT_EQ(both.ToString(), "1-4");
  EXPECT_TRUE(Becomes(shared, "0,5-27"));
  Restart();
  EXPECT_TRUE(Becomes(shared, "0,5-27"));
  EXPECT_EQ(*CpuSet::Parse(CpusOf(app.container)) | *CpuSet::Parse(CpusOf(other.container)), both);
  EXPECT_TRUE(Resize(app, 500).ok());
  EXPECT_TRUE(Resize(other, 500).ok());
  EXPECT_TRUE(Becomes(shared, "0-27"));
}

// Its neighbours cannot be moved: it does not come onto the CPUs, also not after a restart.
TEST_F(DaemonResizeShared, OthersLeaveTheCpusFirst) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(500));
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"}, shared.container);
  EXPECT_FALSE(Resize(app, 2000, seconds(2)).ok());
  EXPECT_TRUE(HasEntry(R"("app":{"app":"1-2"})")) << State();
  EXPECT_NE(CpusOf(app.container), "1-2");
  EXPECT_EQ(QuotaOf(app), 50'000);
  Restart();
  EXPECT_FALSE(Resize(app, 2000, seconds(2)).ok());
  EXPECT_NE(CpusOf(app.container), "1-2");
  runtime_->SetFailure(kUpdates, grpc::Status::OK);
  const grpc::Status grown = Resize(app, 2000);
  ASSERT_TRUE(grown.ok()) << grown.error_message();
  EXPECT_EQ(CpusOf(app.container), "1-2");
  EXPECT_EQ(CpusOf(shared.container), "0,3-27");
}

// The container is still on its CPUs: no container of the pool, and no other one, comes onto them.
TEST_F(DaemonResizeShared, CpusAreFreeWhenTheContainerHasLeftThem) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  ASSERT_TRUE(Becomes(shared, "0,3-27"));
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"}, app.container);
  EXPECT_FALSE(Resize(app, 500).ok());
  EXPECT_FALSE(HasEntry("\"app\"")) << State();
  const v1::PodSandboxConfig pod = PodConfig("next");
  const auto created = Create(Run(pod), pod, Pinned(2));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  const std::string id = created.response.container_id();
  EXPECT_EQ(CpusOf(id), "1-2");
  auto started = std::async(std::launch::async, [&] { return StartContainer(id); });
  EXPECT_EQ(started.wait_for(milliseconds(500)), std::future_status::timeout);
  EXPECT_EQ(CpusOf(app.container), "1-2");
  EXPECT_EQ(CpusOf(shared.container), "0,3-27");
  runtime_->SetFailure(kUpdates, grpc::Status::OK);
  const grpc::Status repeated = Resize(app, 500);
  EXPECT_TRUE(repeated.ok()) << repeated.error_message();
  const grpc::Status status = started.get();
  EXPECT_TRUE(status.ok()) << status.error_message();
  EXPECT_TRUE(Becomes(app, "0,3-27"));
  EXPECT_EQ(QuotaOf(app), 50'000);
}

// `app` is still on CPUs that it was resized away from, and waits for `pool` to leave its new ones.
// Another container that is assigned the former ones need not wait as long.
TEST_F(DaemonResizeShared, ContainerThatWaitsLeavesTheCpusOfAnother) {
  Start();
  const Running pool = RunOne(BurstablePod("pool"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  ASSERT_TRUE(Becomes(pool, "0,3-27"));
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"});
  EXPECT_FALSE(Resize(app, 500).ok());
  const v1::PodSandboxConfig pod = PodConfig("next");
  const std::string next = Create(Run(pod), pod, Pinned(2)).response.container_id();
  EXPECT_EQ(CpusOf(next), "1-2");
  EXPECT_FALSE(Resize(app, 2000, seconds(1)).ok());
  EXPECT_TRUE(HasEntry(R"("app":{"app":"3-4"})")) << State();
  EXPECT_EQ(CpusOf(app.container), "1-2");

  watch_.Forget();  // `app` is in the pool without a quota: the call that sets it has failed
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"}, pool.container);
  const grpc::Status started = StartContainer(next);
  EXPECT_TRUE(started.ok()) << started.error_message();
  EXPECT_EQ(CpusOf(app.container), "0,5-27");
  EXPECT_EQ(CpusOf(pool.container), "0,3-27");
  watch_.Forget();
  runtime_->SetFailure(kUpdates, grpc::Status::OK);
  EXPECT_TRUE(Becomes(pool, "0,5-27"));
  EXPECT_TRUE(Becomes(app, "3-4"));
}

// In the shared pool, it would be with others.
TEST_F(DaemonResizeShared, ContainerThatWaitsStaysOnCpusThatNoOtherIsAssigned) {
  Start();
  const Running pool = RunOne(BurstablePod("pool"), Shared());
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  ASSERT_TRUE(Becomes(pool, "0,3-27"));
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"});
  EXPECT_FALSE(Resize(app, 500).ok());
  const v1::PodSandboxConfig pod = PodConfig("next");
  const std::string sandbox = Run(pod);
  EXPECT_EQ(CpusOf(Create(sandbox, pod, Pinned(2)).response.container_id()), "1-2");
  EXPECT_FALSE(Resize(app, 2000, seconds(1)).ok());
  ASSERT_TRUE(StopSandbox(sandbox).ok());
  ASSERT_TRUE(RemoveSandbox(sandbox).ok());
  ASSERT_TRUE(Eventually([&] { return !HasEntry("\"next\""); })) << State();
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"}, pool.container);
  EXPECT_FALSE(Resize(app, 2000, seconds(2)).ok());
  EXPECT_EQ(CpusOf(app.container), "1-2");
  runtime_->SetFailure(kUpdates, grpc::Status::OK);
  EXPECT_TRUE(Becomes(app, "3-4"));
}

// The mark of its creation says that it has exclusive CPUs.
// The runtime has not heard of the resize: its numbers are those that the next call has.
TEST_F(DaemonResizeShared, TheFormerNumberAfterAMoveThatFailedIsAResize) {
  Start();
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::UNAVAILABLE, "busy"}, app.container);
  EXPECT_FALSE(Resize(app, 500).ok());
  EXPECT_FALSE(HasEntry("\"app\"")) << State();
  runtime_->SetFailure(kUpdates, grpc::Status::OK);
  ASSERT_TRUE(Becomes(app, "0-27"));
  const grpc::Status back = Resize(app, 2000);
  ASSERT_TRUE(back.ok()) << back.error_message();
  EXPECT_EQ(CpusOf(app.container), "1-2");
  EXPECT_EQ(QuotaOf(app), -1);
  EXPECT_TRUE(HasEntry(R"("app":{"app":"1-2"})")) << State();
}

TEST_F(DaemonResizeShared, StaysSharedAfterARestart) {
  Start();
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  ASSERT_TRUE(Resize(app, 500).ok());
  ASSERT_TRUE(Becomes(app, "0-27"));
  Restart();
  EXPECT_TRUE(Resize(app, 700).ok());
  EXPECT_FALSE(HasEntry("\"app\"")) << State();
  EXPECT_EQ(CpusOf(app.container), "0-27");
  EXPECT_TRUE(ConditionsOfType(reconcile::ConditionType::kStateRebuilt).empty());
  // Also if all files are lost: the runtime has its CPU shares.
  StopDaemon();
  std::filesystem::remove_all(StateDir());
  StartDaemon();
  EXPECT_TRUE(Resize(app, 800).ok());
  EXPECT_FALSE(HasEntry("\"app\"")) << State();
  EXPECT_EQ(CpusOf(app.container), "0-27");
  EXPECT_TRUE(ConditionsOfType(reconcile::ConditionType::kAssignmentUnknown).empty());
  EXPECT_TRUE(Resize(app, 2000).ok());
  EXPECT_EQ(CpusOf(app.container), "1-2");
}

// The file of its CPUs is lost: runtime, cgroup and CPU shares say which it has.
TEST_F(DaemonResizeShared, ExclusiveCpusOfAResizeOutliveTheLossOfTheirFile) {
  Start();
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  ASSERT_TRUE(Resize(app, 500).ok());
  const Running other = RunOne(PodConfig("other"), Sized(2000));
  ASSERT_EQ(CpusOf(other.container), "1-2");
  ASSERT_TRUE(Resize(app, 3000).ok());
  ASSERT_EQ(CpusOf(app.container), "3-5");
  StopDaemon();
  std::filesystem::remove(StateDir() / "cpu_manager_state");
  StartDaemon();
  EXPECT_TRUE(Resize(app, 3000).ok());
  EXPECT_TRUE(Eventually([&] { return HasEntry(R"("other":{"app":"1-2"})"); })) << State();
  EXPECT_EQ(CpusOf(other.container), "1-2");
}

// alignd ended between the write of fewer CPUs and the update of the runtime. The container stays
// on those that it keeps, and others come onto the rest when it has left that.
TEST_F(DaemonResizeShared, ShrinkThatWasInterruptedGoesOnAfterARestart) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("app");
  Running app = RunOne(pod, Sized(500));
  ASSERT_TRUE(Resize(app, 6000).ok());
  ASSERT_TRUE(runtime_->EndContainer(app.container, 137));
  app.container = Create(app.sandbox, pod, Sized(6000, 1)).response.container_id();
  ASSERT_TRUE(StartContainer(app.container).ok());
  ASSERT_EQ(CpusOf(app.container), "1-6");
  for (int i = 0; i < 3; ++i) RunOne(BurstablePod("shared" + std::to_string(i)), Shared());
  runtime_->SetFailure(kUpdates, {grpc::StatusCode::INTERNAL, "no"});
  EXPECT_FALSE(Resize(app, 3000).ok());
  StopDaemon();
  ASSERT_EQ(CpusOf(app.container), "1-6");
  runtime_->SetFailure(kUpdates, grpc::Status::OK);
  const size_t before = runtime_->Requests(kUpdates).size();
  StartDaemon();
  EXPECT_TRUE(Becomes(app, "1-3"));
  EXPECT_TRUE(Eventually([&] { return runtime_->Requests(kUpdates).size() >= before + 4; }));
  bool has_left = false;
  const auto requests = runtime_->Requests(kUpdates);
  for (size_t i = before; i < requests.size(); ++i) {
    v1::UpdateContainerResourcesRequest update;
    ASSERT_TRUE(update.ParseFromString(requests[i].bytes));
    const std::string cpus = update.linux().cpuset_cpus();
    if (update.container_id() == app.container) {
      EXPECT_EQ(cpus, "1-3") << "update " << i;
      has_left = true;
    } else if (!has_left) {
      EXPECT_EQ(cpus, "0,7-27") << "update " << i;
    }
  }
}

TEST_F(DaemonResizeShared, CreatedAgain) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("app");
  Running app = RunOne(pod, Sized(2000));
  const auto again = [&](int64_t millis, uint32_t attempt) {
    ASSERT_TRUE(runtime_->EndContainer(app.container, 137));
    const auto created = Create(app.sandbox, pod, Sized(millis, attempt));
    ASSERT_TRUE(created.status.ok()) << created.status.error_message();
    app.container = created.response.container_id();
    ASSERT_TRUE(StartContainer(app.container).ok());
  };
  ASSERT_NO_FATAL_FAILURE(again(500, 1));  // resizePolicy RestartContainer
  EXPECT_TRUE(Becomes(app, "0-27"));
  EXPECT_EQ(QuotaOf(app), 50'000);
  ASSERT_NO_FATAL_FAILURE(again(500, 2));  // a crash
  EXPECT_TRUE(Becomes(app, "0-27"));
  ASSERT_NO_FATAL_FAILURE(again(3000, 3));
  EXPECT_EQ(CpusOf(app.container), "1-3");
  EXPECT_EQ(Resize(app, 2000).error_code(), grpc::StatusCode::FAILED_PRECONDITION)
      << "it was created with 3";
  EXPECT_TRUE(Resize(app, 2500).ok());
  EXPECT_TRUE(Resize(app, 2000).ok());
  ASSERT_NO_FATAL_FAILURE(again(2000, 4));
  EXPECT_EQ(CpusOf(app.container), "1-2");
}

// Nothing has been written for the pod at that time.
TEST_F(DaemonResizeShared, ResizeThatIsNotPossibleIsRefusedBeforeThePodGrows) {
  Start();
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  const auto pod_with = [&](const std::string& cpus) {
    (*api)->SetPod(MakePod("app", {App("app", {{"cpu", cpus}, {"memory", "100Mi"}})}));
  };
  pod_with("500m");
  const Running app = RunOne(PodConfig("app"), Sized(500));
  pod_with("28");
  const grpc::Status refused = PodStep(app, 28'000);
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(refused.error_message().starts_with(
      "ResizeRefused: container app of pod default/pod-app runs in the shared pool, and too few "
      "other CPUs are free"))
      << refused.error_message();
  EXPECT_EQ(ConditionsOfType(reconcile::ConditionType::kPodResizeRefused).size(), 1U);
  pod_with("2");
  EXPECT_EQ(PodStep(app, 2000).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(CpusOf(app.container), "0-27") << "it has only been tried";
  ASSERT_TRUE(Resize(app, 2000).ok());
  EXPECT_TRUE(ConditionsOfType(reconcile::ConditionType::kPodResizeRefused).empty());
  // To shared CPUs, the pod shrinks; a lifted quota counts as the smallest one.
  pod_with("500m");
  EXPECT_EQ(PodStep(app, 500).error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_TRUE(Resize(app, 500).ok());
}

// Other programs give only what they change.
TEST_F(DaemonResizeShared, UpdateWithoutAllSizesIsNoResizeToSharedCpus) {
  Start();
  const Running app = RunOne(PodConfig("app"), Sized(2000));
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(app.container);
  request.mutable_linux()->set_cpu_quota(150'000);
  const auto refused = [&] { return Update(request).error_message(); };
  EXPECT_NE(
      refused().find("has 2 exclusive CPUs (1-2), and only an update with the CPU shares and "
                     "the memory limit, as the kubelet sends it, resizes it between exclusive "
                     "and shared CPUs: asked for 1.5 CPUs"),
      std::string::npos)
      << refused();
  EXPECT_EQ(CpusOf(app.container), "1-2");
  EXPECT_EQ(QuotaOf(app), -1);
  const Running shared = RunOne(PodConfig("shared"), Sized(500));
  request.set_container_id(shared.container);
  request.mutable_linux()->set_cpu_quota(200'000);
  request.mutable_linux()->set_cpu_shares(2048);
  EXPECT_NE(refused().find("runs in the shared pool, and only an update with the CPU shares"),
            std::string::npos)
      << refused();
}

TEST_F(DaemonResizeShared, PodThatAsksForOneNumaNodeStaysAsItIs) {
  Start(StaticConfig("podPolicies: [sharedNUMANode]\n"));
  v1::PodSandboxConfig pod = PodConfig("app");
  (*pod.mutable_annotations())["alignd.io/shared-cpus"] = "single-numa-node";
  const Running app = RunOne(pod, Sized(2000));
  for (const bool restarted : {false, true}) {
    if (restarted) {
      StopDaemon();
      StartDaemon(StaticConfig("podPolicies: [sharedNUMANode]\n"));
    }
    const grpc::Status refused = Resize(app, 500);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_NE(refused.error_message().find("its pod asks for shared CPUs of one NUMA node"),
              std::string::npos)
        << refused.error_message();
  }
  EXPECT_EQ(CpusOf(app.container), "1-2");
}

}  // namespace
}  // namespace alignd::daemon
