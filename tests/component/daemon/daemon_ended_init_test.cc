// Pods whose container roles (init, sidecar, app) no source knows: alignd sees the CRI calls only.
#include <gtest/gtest.h>

#include <string>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonEndedInit : public DaemonTest {
 protected:
  // A Guaranteed pod whose peak request is that many CPUs.
  static v1::PodSandboxConfig KubeletAllocatedPod(const std::string& uid, int cpus) {
    v1::PodSandboxConfig pod = PodConfig(uid);
    v1::LinuxContainerResources& sized = *pod.mutable_linux()->mutable_resources();
    sized.set_cpu_period(100'000);
    sized.set_cpu_quota(cpus * 100'000);
    sized.set_cpu_shares(cpus * 1024);
    return pod;
  }
  static v1::ContainerConfig Again(v1::ContainerConfig container) {
    container.mutable_metadata()->set_attempt(1);
    return container;
  }
  bool BecomesState(const std::string& text) const {
    return Eventually([&] { return State().find(text) != std::string::npos; });
  }
};

TEST_F(DaemonEndedInit, CpusOfAnEndedInitContainerAreReusedByItsPodOnAFullNode) {
  Start();
  RunOne(PodConfig("rest"), Pinned(25));
  const v1::PodSandboxConfig pod = KubeletAllocatedPod("p", 2);
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Pinned(2, "init"));
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  CreateAndStart(sandbox, pod, Shared("side"));
  std::string app = CreateAndStart(sandbox, pod, Pinned(2, "app"));
  EXPECT_EQ(CpusOf(app), CpusOf(init));
  EXPECT_TRUE(BecomesState(R"("p":{"app":"12-13"})")) << State();

  // A crash changes nothing.
  ASSERT_TRUE(runtime_->EndContainer(app, 1));
  app = CreateAndStart(sandbox, pod, Again(Pinned(2, "app")));
  EXPECT_EQ(CpusOf(app), CpusOf(init));
  EXPECT_TRUE(BecomesState(R"("p":{"app":"12-13"})")) << State();
}

TEST_F(DaemonEndedInit, UnusedCpusOfALargerInitContainerReturnToThePool) {
  Start();
  const v1::PodSandboxConfig pod = KubeletAllocatedPod("p", 4);
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Pinned(4, "init"));
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  const std::string app = CreateAndStart(sandbox, pod, Pinned(2, "app"));
  EXPECT_EQ(CpusOf(app), "1-2");
  EXPECT_TRUE(BecomesState(R"("p":{"app":"1-2"})")) << State();
}

TEST_F(DaemonEndedInit, EndedContainerThatIsPartOfThePodRequestKeepsItsCpus) {
  Start();
  const v1::PodSandboxConfig pod = KubeletAllocatedPod("p", 4);
  const std::string sandbox = Run(pod);
  const std::string first = CreateAndStart(sandbox, pod, Pinned(2, "first"));
  ASSERT_TRUE(runtime_->EndContainer(first, 0));
  EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Pinned(2, "second"))), "3-4");
  EXPECT_TRUE(BecomesState(R"("p":{"first":"1-2","second":"3-4"})")) << State();
}

TEST_F(DaemonEndedInit, RunningContainerIsNeverTreatedAsAnInitContainer) {
  Start();
  RunOne(PodConfig("rest"), Pinned(25));
  const v1::PodSandboxConfig pod = KubeletAllocatedPod("p", 2);
  const std::string sandbox = Run(pod);
  CreateAndStart(sandbox, pod, Pinned(2, "first"));
  const auto second = Create(sandbox, pod, Pinned(2, "second"));
  EXPECT_EQ(second.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_TRUE(BecomesState(R"("p":{"first":"12-13"})")) << State();
}

TEST_F(DaemonEndedInit, NewSandboxRunsInitContainersOnTheCpusOfTheOthers) {
  Start();
  RunOne(PodConfig("rest"), Pinned(25));
  const v1::PodSandboxConfig pod = KubeletAllocatedPod("p", 2);
  for (int life = 0; life < 2; ++life) {
    const std::string sandbox = Run(pod);
    const std::string init = CreateAndStart(sandbox, pod, Pinned(2, "init"));
    EXPECT_EQ(CpusOf(init), "12-13");
    ASSERT_TRUE(runtime_->EndContainer(init, 0));
    EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Pinned(2, "app"))), "12-13");
    ASSERT_TRUE(StopSandbox(sandbox).ok());
  }
}

// An init container of the new sandbox takes memory of the container of the earlier one, which
// needs all of it again. Nothing but the state knows of that after a restart.
TEST_F(DaemonEndedInit, NewSandboxRunsOthersWithAllOfTheirMemory) {
  const std::string config = StaticConfig(
      "memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n  limits: {memory: 100Mi}\n");
  Start(config);
  constexpr int64_t kGi = int64_t{1} << 30;
  for (const int millis : {2000, 1500}) {
    for (const bool restarts : {false, true}) {
      SCOPED_TRACE(millis + (restarts ? 1 : 0));
      const std::string uid = "p" + std::to_string(millis) + (restarts ? "r" : "");
      const auto sized = [&](int64_t gib, const std::string& name) {
        return podsource::Kubelet(millis, millis, gib * kGi, name);
      };
      v1::PodSandboxConfig pod = KubeletAllocatedPod(uid, 2);
      pod.mutable_linux()->mutable_resources()->set_memory_limit_in_bytes(2 * kGi);
      const std::string before = Run(pod);
      ASSERT_TRUE(runtime_->EndContainer(CreateAndStart(before, pod, sized(1, "init")), 0));
      CreateAndStart(before, pod, sized(2, "app"));
      ASSERT_TRUE(StopSandbox(before).ok());
      const std::string sandbox = Run(pod);
      const auto init = Create(sandbox, pod, sized(1, "init"));
      ASSERT_TRUE(init.status.ok()) << init.status.error_message();
      if (restarts) {
        StopDaemon();
        StartDaemon(config);
      }
      ASSERT_TRUE(StartContainer(init.response.container_id()).ok());
      ASSERT_TRUE(runtime_->EndContainer(init.response.container_id(), 0));
      CreateAndStart(sandbox, pod, sized(2, "app"));
      const std::string assigned = "\"" + uid +
                                   R"(":{"app":[{"numaAffinity":[0],"type":"memory","size":)" +
                                   std::to_string(2 * kGi) + "}]}";
      EXPECT_TRUE(Eventually([&] {
        return ReadText(StateDir() / "memory_manager_state").find(assigned) != std::string::npos;
      })) << ReadText(StateDir() / "memory_manager_state");
    }
  }
}

// Kubelets before about 1.25: a container that exited with 0 is an init container, a crashed
// container is not.
TEST_F(DaemonEndedInit, WithoutThePodRequestTheExitCodeDecides) {
  Start();
  RunOne(PodConfig("rest"), Pinned(25));
  const v1::PodSandboxConfig pod = PodConfig("p");
  const std::string sandbox = Run(pod);
  std::string first = CreateAndStart(sandbox, pod, Pinned(2, "first"));
  ASSERT_TRUE(runtime_->EndContainer(first, 1));
  EXPECT_EQ(Create(sandbox, pod, Pinned(2, "second")).status.error_code(),
            grpc::StatusCode::FAILED_PRECONDITION);
  first = CreateAndStart(sandbox, pod, Again(Pinned(2, "first")));
  EXPECT_EQ(CpusOf(first), "12-13");
  ASSERT_TRUE(runtime_->EndContainer(first, 0));
  EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Pinned(2, "second"))), "12-13");
  EXPECT_TRUE(BecomesState(R"("p":{"second":"12-13"})")) << State();
}

}  // namespace
}  // namespace alignd::daemon
