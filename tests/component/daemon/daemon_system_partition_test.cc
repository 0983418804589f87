// Pods of the kubelet's system partition (KEP-5894), which has reserved CPUs only.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "edge/status_conditions.h"
#include "fake_cgroups.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

// Cgroups of version 2. CPU 0 is reserved. The kernel runs containers that have no CPU of their
// parent on CPU 0.
class DaemonSystemPartition : public DaemonTest {
 protected:
  DaemonSystemPartition() : cgroups_(CgroupRoot(), /*unified=*/true, "0") {
    watch_.OnEvent([this](const RuntimeModel::Event& event) {
      if (event.container.cgroup.find("/system/") != std::string::npos) cgroups_.Apply(event);
    });
  }
  ~DaemonSystemPartition() override { watch_.OnEvent({}); }

  void StartStrictly() {
    Start(StaticConfig("cpuManagerPolicyOptions: {strict-cpu-reservation: \"true\"}\n"));
  }
  void Partition(const std::string& cpus, const std::string& effective) const {
    const std::filesystem::path directory = CgroupRoot() / "kubepods/system";
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "cpuset.cpus") << cpus << "\n";
    std::ofstream(directory / "cpuset.cpus.effective") << effective << "\n";
    std::ofstream(directory / "cpuset.mems") << "\n";
    std::ofstream(directory / "cpuset.mems.effective") << "0-1\n";
  }
  static v1::PodSandboxConfig In(v1::PodSandboxConfig pod, const std::string& parent) {
    pod.mutable_linux()->set_cgroup_parent(parent + "pod" + pod.metadata().uid());
    return pod;
  }
  static v1::PodSandboxConfig Burstable(const std::string& uid) {
    return In(BurstablePod(uid), "/kubepods/system/burstable/");
  }
  static v1::PodSandboxConfig Guaranteed(const std::string& uid) {
    return In(PodConfig(uid), "/kubepods/system/");
  }

  static v1::ContainerConfig OneAndAHalf() {
    v1::ContainerConfig container = Pinned(2);
    container.mutable_linux()->mutable_resources()->set_cpu_shares(1536);
    container.mutable_linux()->mutable_resources()->set_cpu_quota(150'000);
    return container;
  }
  size_t ResizesRefused() const {
    return testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                 reconcile::ConditionType::kPodResizeRefused)
        .size();
  }

  bool AwaitCut(const std::string& message) const {
    return Eventually([&] {
      const auto conditions = testing::ConditionsOf(
          DaemonOptions().ControlSocket(), reconcile::ConditionType::kConflictingCpuManager);
      return std::ranges::any_of(conditions, [&](const control::v1::Condition& condition) {
        return condition.message().find(message) != std::string::npos;
      });
    });
  }

  FakeCgroups cgroups_;
};

constexpr char kRefused[] =
    "container app requests CPUs of its own, but its pod is in cgroup /kubepods/system, the "
    "kubelet's system partition, which has CPUs 0 only";

constexpr char kResizeRefused[] =
    "ResizeRefused: container app of pod default/pod-p requests CPUs of its own, but its pod is in "
    "cgroup /kubepods/system, the kubelet's system partition, which has CPUs 0 only";

TEST_F(DaemonSystemPartition, SharedContainersRunBesideAStrictReservation) {
  Partition("0", "0");
  StartStrictly();
  const Running shared = RunOne(Burstable("shared"), Shared());
  EXPECT_EQ(CpusOf(shared.container), "1-27");
  // It is on no exclusive CPU: nothing waits for it, and nothing is wrong with it.
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(CpusOf(pinned.container), "1-3");
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "4-27"; }));
  std::this_thread::sleep_for(milliseconds(300));  // the guard has looked
  EXPECT_TRUE(testing::ConditionsOf(DaemonOptions().ControlSocket(),
                                    reconcile::ConditionType::kConflictingCpuManager)
                  .empty());
}

// The partition is made smaller while they run.
TEST_F(DaemonSystemPartition, ContainersThatLoseTheirOwnCpusAreReported) {
  Partition("0-27", "0-27");
  StartStrictly();
  const Running pinned = RunOne(Guaranteed("pinned"), Pinned(2));
  EXPECT_EQ(CpusOf(pinned.container), "1-2");
  Partition("0", "0");
  EXPECT_TRUE(AwaitCut("has CPUs 1-2, but may use only 0"));
}

TEST_F(DaemonSystemPartition, SharedContainersOnCpusThatCanBeExclusiveAreReported) {
  Partition("0-3", "0-3");
  StartStrictly();
  RunOne(Burstable("shared"), Shared());
  EXPECT_TRUE(AwaitCut("has CPUs 1-27, but may use only 0"));
}

TEST_F(DaemonSystemPartition, PodWithWholeCpusIsRefusedBeforeAnythingIsAssigned) {
  Partition("0", "0");
  StartStrictly();
  const v1::PodSandboxConfig pod = Guaranteed("p");
  const std::string sandbox = Run(pod);
  const auto refused = Create(sandbox, pod, Pinned(2));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find(kRefused), std::string::npos)
      << refused.status.error_message();
  EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
  // A part of a CPU is shared.
  const v1::PodSandboxConfig other = Guaranteed("other");
  const auto created = Create(Run(other), other, OneAndAHalf());
  EXPECT_TRUE(created.status.ok()) << created.status.error_message();
  // With all CPUs, the partition is like any other cgroup.
  Partition("0-27", "0-27");
  const auto all = Create(sandbox, pod, Pinned(2));
  ASSERT_TRUE(all.status.ok()) << all.status.error_message();
  EXPECT_EQ(CpusOf(all.response.container_id()), "1-2");
}

TEST_F(DaemonSystemPartition, WithoutACpusetItIsLikeAnyOtherCgroup) {
  Partition("", "0-27");
  Start();
  const v1::PodSandboxConfig pod = Guaranteed("p");
  const auto created = Create(Run(pod), pod, Pinned(2));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-2");
}

TEST_F(DaemonSystemPartition, CpusThatAreNotReservedAreNoPlaceForSharedContainers) {
  Partition("0-3", "0-3");
  StartStrictly();
  RunOne(PodConfig("pinned"), Pinned(3));
  const v1::PodSandboxConfig pod = Burstable("shared");
  const auto refused = Create(Run(pod), pod, Shared());
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.status.error_message().find("runs in the shared pool, CPUs 4-27, but cgroup "
                                                "/kubepods/system may use CPUs 0-3 only"),
            std::string::npos)
      << refused.status.error_message();
}

TEST_F(DaemonSystemPartition, FirstExclusiveCpusByAResizeAreRefused) {
  Partition("0", "0");
  Start();
  const Running shared = RunOne(Guaranteed("p"), OneAndAHalf());
  v1::UpdateContainerResourcesRequest request;
  request.set_container_id(shared.container);
  *request.mutable_linux() = Pinned(2).linux().resources();
  const grpc::Status resized =
      Call<v1::UpdateContainerResourcesResponse>("UpdateContainerResources", request).status;
  EXPECT_EQ(resized.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(resized.error_message().starts_with(kResizeRefused)) << resized.error_message();
  EXPECT_EQ(ResizesRefused(), 1U);
  EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
}

// At the pod's step, before the kubelet has enlarged its cgroup.
TEST_F(DaemonSystemPartition, PodThatAsksForFirstExclusiveCpusDoesNotGrow) {
  Partition("0", "0");
  Start();
  auto api = simulator::PodsApi::Start(PodsApiEndpoint());
  ASSERT_TRUE(api.ok()) << api.error().Text();
  const auto pod_with = [&](const std::string& cpus) {
    (*api)->SetPod(MakePod("p", {App("app", {{"cpu", cpus}, {"memory", "100Mi"}})}));
  };
  pod_with("1500m");
  const Running shared = RunOne(Guaranteed("p"), OneAndAHalf());
  pod_with("2");
  v1::UpdatePodSandboxResourcesRequest request;
  request.set_pod_sandbox_id(shared.sandbox);
  *request.mutable_resources() = Pinned(2).linux().resources();
  const auto step = [&] {
    return Call<v1::UpdatePodSandboxResourcesResponse>("UpdatePodSandboxResources", request).status;
  };
  const grpc::Status refused = step();
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(refused.error_message().starts_with(kResizeRefused)) << refused.error_message();
  EXPECT_EQ(ResizesRefused(), 1U);
  EXPECT_TRUE(runtime_->Requests("UpdatePodSandboxResources").empty());
  // What cannot be read is no refusal: the kubelet repeats the call.
  Partition("nonsense", "0");
  EXPECT_EQ(step().error_message().find("ResizeRefused"), std::string::npos);
  EXPECT_TRUE(runtime_->Requests("UpdatePodSandboxResources").empty());
  Partition("0-27", "0-27");
  EXPECT_EQ(step().error_code(), grpc::StatusCode::UNIMPLEMENTED) << "of the simulated runtime";
  EXPECT_EQ(runtime_->Requests("UpdatePodSandboxResources").size(), 1U);
}

}  // namespace
}  // namespace alignd::daemon
