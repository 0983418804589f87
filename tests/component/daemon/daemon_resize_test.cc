// In-place pod resize: a resize that changes no exclusive CPUs is passed on. With
// --resize-exclusive-cpus=count-only, one that would make CPUs exclusive, or shared, is refused
// with the reason; with false, so is another number of exclusive CPUs.
#include <gtest/gtest.h>

#include <string>

#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

constexpr int64_t kMemory = 100 * 1024 * 1024;

class DaemonResize : public DaemonTest {
 protected:
  // A container of a Guaranteed pod with that many millicpus.
  static v1::ContainerConfig Guaranteed(int millis, const std::string& name = "app") {
    v1::ContainerConfig config = Pinned(0, name);
    *config.mutable_linux()->mutable_resources() = Sizes(millis);
    return config;
  }
  static v1::LinuxContainerResources Sizes(int millis) {
    v1::LinuxContainerResources sizes =
        podsource::Kubelet(millis, millis, kMemory).linux().resources();
    sizes.set_oom_score_adj(-997);
    return sizes;
  }
  // A kubelet 1.36 sends all values, also when only one of them changes.
  static v1::UpdateContainerResourcesRequest Resize(const std::string& id, int millis,
                                                    int64_t memory = kMemory) {
    v1::UpdateContainerResourcesRequest request;
    request.set_container_id(id);
    *request.mutable_linux() = Sizes(millis);
    request.mutable_linux()->set_memory_limit_in_bytes(memory);
    return request;
  }
  v1::LinuxContainerResources Now(const std::string& id) const {
    const auto container = runtime_->FindContainer(id);
    return container ? container->resources : v1::LinuxContainerResources();
  }
  static std::string Restarted(v1::ContainerConfig& config) {
    config.mutable_metadata()->set_attempt(config.metadata().attempt() + 1);
    return config.metadata().name();
  }
  void ExpectRefused(const v1::UpdateContainerResourcesRequest& request,
                     const std::string& text) const {
    const v1::LinuxContainerResources before = Now(request.container_id());
    const grpc::Status refused = Update(request);
    EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    EXPECT_NE(refused.error_message().find(text), std::string::npos) << refused.error_message();
    EXPECT_EQ(Now(request.container_id()).SerializeAsString(), before.SerializeAsString());
  }
};

class DaemonResizeOfTheCountOnly : public DaemonResize {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonResize::DaemonOptions();
    options.resize_exclusive_cpus = allocation::CpuResizes::kCountOnly;
    return options;
  }
};

TEST_F(DaemonResizeOfTheCountOnly, AmountThatIsNotWholeCannotReplaceExclusiveCpus) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Guaranteed(3000));
  const std::string refusal =
      "ResizeRefused: container app of pod default/pod-pinned has 3 exclusive CPUs (1-3), and only "
      "a whole number of CPUs can replace them: asked for ";
  ExpectRefused(Resize(pinned.container, 4500), refusal + "4.5 CPUs");
  ExpectRefused(Resize(pinned.container, 10), refusal + "0.01 CPUs");
  EXPECT_TRUE(runtime_->Requests("UpdateContainerResources").empty());
}

class DaemonResizeTurnedOff : public DaemonResize {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonResize::DaemonOptions();
    options.resize_exclusive_cpus = allocation::CpuResizes::kNone;
    return options;
  }
};

TEST_F(DaemonResizeTurnedOff, AnotherNumberOfExclusiveCpusIsRefused) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Guaranteed(3000));
  const std::string refusal =
      "ResizeRefused: container app of pod default/pod-pinned has 3 exclusive CPUs (1-3), and "
      "their number "
      "cannot change while its pod lives: asked for ";
  ExpectRefused(Resize(pinned.container, 4500), refusal + "4.5 CPUs");
  ExpectRefused(Resize(pinned.container, 2000), refusal + "2 CPUs");
  v1::UpdateContainerResourcesRequest as_a_file;
  as_a_file.set_container_id(pinned.container);
  (*as_a_file.mutable_linux()->mutable_unified())["cpu.max"] = "200000 100000";
  ExpectRefused(as_a_file, refusal + "2 CPUs");
  v1::UpdateContainerResourcesRequest without_quota = Resize(pinned.container, 4000);
  without_quota.mutable_linux()->clear_cpu_quota();  // cpuCFSQuota: false
  without_quota.mutable_linux()->clear_cpu_period();
  ExpectRefused(without_quota, refusal + "4 CPUs");
  EXPECT_TRUE(runtime_->Requests("UpdateContainerResources").empty());
}

TEST_F(DaemonResize, WhatKeepsTheNumberOfExclusiveCpusPasses) {
  Start();
  const Running pinned = RunOne(PodConfig("pinned"), Guaranteed(3000));
  ASSERT_TRUE(Update(Resize(pinned.container, 3000, 2 * kMemory)).ok());
  EXPECT_EQ(Now(pinned.container).memory_limit_in_bytes(), 2 * kMemory);
  v1::UpdateContainerResourcesRequest request = Resize(pinned.container, 3000, 3 * kMemory);
  request.mutable_linux()->clear_cpu_quota();
  ASSERT_TRUE(Update(request).ok());
  request.mutable_linux()->set_cpu_quota(-1);
  ASSERT_TRUE(Update(request).ok());
  // Values that other programs set.
  request.mutable_linux()->Clear();
  request.mutable_linux()->set_memory_limit_in_bytes(4 * kMemory);
  ASSERT_TRUE(Update(request).ok());
  request.mutable_linux()->Clear();
  request.mutable_linux()->set_cpu_shares(7);
  ASSERT_TRUE(Update(request).ok());
  EXPECT_EQ(Now(pinned.container).cpu_shares(), 7);
  EXPECT_EQ(Now(pinned.container).memory_limit_in_bytes(), 4 * kMemory);
  EXPECT_EQ(Now(pinned.container).cpu_quota(), -1);
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
}

TEST_F(DaemonResizeOfTheCountOnly, SharedContainerOfAGuaranteedPodCannotGrowToExclusiveCpus) {
  Start();
  const Running shared = RunOne(PodConfig("p"), Guaranteed(1500));
  const std::string reason =
      "ResizeRefused: container app of pod default/pod-p runs in the shared pool, and exclusive "
      "CPUs are "
      "allocated only when a container is created. The update requests 2 CPUs, which are exclusive "
      "in a Guaranteed "
      "pod. Nothing was changed.";
  ExpectRefused(Resize(shared.container, 2000), reason);
  // The runtime alone has the information for this decision.
  StopDaemon();
  StartDaemon();
  ExpectRefused(Resize(shared.container, 2000), reason);
  EXPECT_EQ(CpusOf(shared.container), "0-27");
  EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
}

TEST_F(DaemonResize, ResizeWithinTheSharedPoolPasses) {
  Start();
  const Running fraction = RunOne(PodConfig("fraction"), Guaranteed(1500));
  EXPECT_TRUE(Update(Resize(fraction.container, 2500)).ok());
  EXPECT_TRUE(Update(Resize(fraction.container, 2500, 2 * kMemory)).ok());
  EXPECT_EQ(Now(fraction.container).cpu_quota(), 250'000);
  const Running burstable = RunOne(BurstablePod("burstable"), Guaranteed(1500));
  EXPECT_TRUE(Update(Resize(burstable.container, 2000)).ok());
  EXPECT_EQ(Now(burstable.container).cpu_quota(), 200'000);
}

// The container was created before alignd: it has no exclusive CPUs, and a new memory limit does
// not request any.
TEST_F(DaemonResizeOfTheCountOnly, WholeCpusOfAContainerInTheSharedPoolAreKept) {
  StartRuntime();
  client_ = *simulator::Dial(RuntimeEndpoint());
  const Running old = RunOne(PodConfig("old"), Guaranteed(2000));
  watch_.Forget();
  StartDaemon();
  ASSERT_TRUE(Eventually([&] { return CpusOf(old.container) == "0-27"; }));
  EXPECT_TRUE(Update(Resize(old.container, 2000, 2 * kMemory)).ok());
  EXPECT_EQ(Now(old.container).memory_limit_in_bytes(), 2 * kMemory);
  ExpectRefused(Resize(old.container, 3000), "requests 3 CPUs");
}

TEST_F(DaemonResize, ContainerOfAPodWithResourcesOfItsOwnMayHaveWholeCpus) {
  Start();
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  const auto pod_with = [&](const char* cpus) {
    Pod pod = MakePod("p", {App("app", {{"cpu", cpus}, {"memory", "100Mi"}})});
    const ResourceList all = Amounts({{"cpu", "4"}, {"memory", "200Mi"}});
    pod.pod_level = Resources{all, all};
    (*api)->SetPod(pod);
  };
  pod_with("1500m");
  const Running shared = RunOne(PodConfig("p"), Guaranteed(1500));
  EXPECT_EQ(CpusOf(shared.container), "0-27");
  pod_with("2");
  EXPECT_TRUE(Update(Resize(shared.container, 2000)).ok());
  EXPECT_EQ(Now(shared.container).cpu_quota(), 200'000);
}

// Whether it is a resize to exclusive CPUs is not known, so the kubelet has to repeat it.
TEST_F(DaemonResize, RuntimeThatDoesNotAnswerIsAskedAgain) {
  Start();
  const Running shared = RunOne(PodConfig("p"), Guaranteed(1500));
  runtime_->SetFailure("ContainerStatus", {grpc::StatusCode::UNKNOWN, "out of order"});
  EXPECT_FALSE(Update(Resize(shared.container, 2000)).ok());
  EXPECT_EQ(CpusOf(shared.container), "0-27");
  EXPECT_EQ(Now(shared.container).cpu_quota(), 150'000);
  runtime_->SetFailure("ContainerStatus", grpc::Status::OK);
  EXPECT_TRUE(Update(Resize(shared.container, 2000)).ok());
  EXPECT_EQ(CpusOf(shared.container), "1-2");
}

// resizePolicy RestartContainer: the kubelet stops the container and creates it again.
TEST_F(DaemonResizeTurnedOff, RestartWithAnotherNumberOfExclusiveCpusIsRefused) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("pinned");
  const Running pinned = RunOne(pod, Guaranteed(3000));
  ASSERT_TRUE(runtime_->EndContainer(pinned.container, 137));
  v1::ContainerConfig again = Guaranteed(4000);
  Restarted(again);
  const auto refused = Create(pinned.sandbox, pod, again);
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_NE(refused.status.error_message().find("has 3 exclusive CPUs (1-3)"), std::string::npos)
      << refused.status.error_message();
  EXPECT_NE(refused.status.error_message().find("asked for 4 CPUs"), std::string::npos)
      << refused.status.error_message();
  // The container keeps its CPUs, and the other container of the pod is not changed.
  const auto other = Create(pinned.sandbox, pod, Guaranteed(2000, "other"));
  ASSERT_TRUE(other.status.ok()) << other.status.error_message();
  EXPECT_EQ(CpusOf(other.response.container_id()), "4-5");
  again = Guaranteed(3000);
  Restarted(again);
  const auto created = Create(pinned.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

TEST_F(DaemonResize, RestartThatWantsItsFirstExclusiveCpusGetsThem) {
  Start();
  const v1::PodSandboxConfig pod = PodConfig("p");
  const Running shared = RunOne(pod, Guaranteed(1500));
  const Running bystander = RunOne(BurstablePod("bystander"), Shared());
  ASSERT_TRUE(runtime_->EndContainer(shared.container, 0));
  v1::ContainerConfig again = Guaranteed(2000);
  Restarted(again);
  const auto created = Create(shared.sandbox, pod, again);
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok());
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-2");
  EXPECT_EQ(CpusOf(bystander.container), "0,3-27");
}

}  // namespace
}  // namespace alignd::daemon
