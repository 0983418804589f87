// Which CPUs of init containers and sidecars the other containers of the pod and the node reuse.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonInit : public DaemonTest {
 protected:
  // An init container with four CPUs, a sidecar with one and a container with two.
  static v1::PodSandboxConfig PodWithInit(const std::string& uid) {
    return PodConfig(uid, "",
                     R"({"init":{"init":true,"limits":{"cpu":"4","memory":"100Mi"}},)"
                     R"("side":{"init":true,"restartPolicy":"Always",)"
                     R"("limits":{"cpu":"1","memory":"100Mi"}},)"
                     R"("app":{"limits":{"cpu":"2","memory":"100Mi"}}})");
  }
  static v1::ContainerConfig Attempt(v1::ContainerConfig container, uint32_t attempt) {
    container.mutable_metadata()->set_attempt(attempt);
    return container;
  }
};

TEST_F(DaemonInit, CpusOfAFinishedInitContainerServeThePodAndThenEverybody) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const v1::PodSandboxConfig pod = PodWithInit("p");
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Pinned(4, "init"));
  EXPECT_EQ(CpusOf(init), "1-4");
  EXPECT_EQ(CpusOf(shared.container), "0,5-27");
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  const std::string side = CreateAndStart(sandbox, pod, Pinned(1, "side"));
  EXPECT_EQ(CpusOf(side), "1");
  EXPECT_NE(State().find(R"("init":"1-4")"), std::string::npos) << State();
  const std::string app = CreateAndStart(sandbox, pod, Pinned(2, "app"));
  EXPECT_EQ(CpusOf(app), "2-3");
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,4-27"; }));
  EXPECT_TRUE(Eventually([&] {
    return State().find(R"("p":{"app":"2-3","side":"1"})") != std::string::npos;
  })) << State();

  // A restarted container keeps its CPUs, also on a full node.
  RunOne(PodConfig("rest"), Pinned(24));
  ASSERT_TRUE(runtime_->EndContainer(app, 1));
  EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Attempt(Pinned(2, "app"), 1))), "2-3");
  ASSERT_TRUE(runtime_->EndContainer(side, 1));
  EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Attempt(Pinned(1, "side"), 1))), "1");
}

TEST_F(DaemonInit, RestartAfterOurOwnAsksForNothingNewEither) {
  Start();
  const v1::PodSandboxConfig pod = PodWithInit("p");
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Pinned(4, "init"));
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  CreateAndStart(sandbox, pod, Pinned(1, "side"));
  const std::string app = CreateAndStart(sandbox, pod, Pinned(2, "app"));
  ASSERT_TRUE(Eventually([&] { return State().find("init") == std::string::npos; }));
  RunOne(PodConfig("rest"), Pinned(24));
  StopDaemon();
  StartDaemon();
  ASSERT_TRUE(runtime_->EndContainer(app, 1));
  EXPECT_EQ(CpusOf(CreateAndStart(sandbox, pod, Attempt(Pinned(2, "app"), 1))), "2-3");
}

// In a new sandbox, the init containers run again, while the other containers do not run.
TEST_F(DaemonInit, InitContainerOfARecreatedSandboxHasTheCpusOfTheOthers) {
  Start();
  const v1::PodSandboxConfig pod =
      PodConfig("p", "",
                R"({"init":{"init":true,"limits":{"cpu":"2","memory":"100Mi"}},)"
                R"("app":{"limits":{"cpu":"2","memory":"100Mi"}}})");
  std::string sandbox = Run(pod);
  std::string init = CreateAndStart(sandbox, pod, Pinned(2, "init"));
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  std::string app = CreateAndStart(sandbox, pod, Pinned(2, "app"));
  EXPECT_EQ(CpusOf(app), "1-2");
  RunOne(PodConfig("rest"), Pinned(25));
  ASSERT_TRUE(StopSandbox(sandbox).ok());
  sandbox = Run(pod);
  init = CreateAndStart(sandbox, pod, Attempt(Pinned(2, "init"), 1));
  EXPECT_EQ(CpusOf(init), "1-2");
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  app = CreateAndStart(sandbox, pod, Attempt(Pinned(2, "app"), 1));
  EXPECT_EQ(CpusOf(app), "1-2");
}

// The annotation calls a sidecar an init container.
TEST_F(DaemonInit, NoContainerStartsOnTheCpusOfOneOfItsPodThatRuns) {
  Start();
  v1::PodSandboxConfig pod =
      PodConfig("p", "",
                R"({"side":{"init":true,"limits":{"cpu":"2","memory":"100Mi"}},)"
                R"("app":{"limits":{"cpu":"2","memory":"100Mi"}}})");
  const std::string sandbox = Run(pod);
  const std::string side = CreateAndStart(sandbox, pod, Pinned(2, "side"));
  const auto app = Create(sandbox, pod, Pinned(2, "app"));
  ASSERT_TRUE(app.status.ok()) << app.status.error_message();
  EXPECT_EQ(CpusOf(app.response.container_id()), CpusOf(side));
  const grpc::Status refused = StartContainer(app.response.container_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.error_message().find("container side of the same pod runs with CPUs 1-2"),
            std::string::npos)
      << refused.error_message();
  EXPECT_EQ(State().find("default\":\"0,3-27"), std::string::npos);
  EXPECT_NE(State().find(R"("side":"1-2")"), std::string::npos) << State();
  ASSERT_TRUE(runtime_->EndContainer(side, 0));
  EXPECT_TRUE(StartContainer(app.response.container_id()).ok());
  // Nor does the other one once more, while that one runs.
  const auto again = Create(sandbox, pod, Attempt(Pinned(2, "side"), 1));
  ASSERT_TRUE(again.status.ok()) << again.status.error_message();
  EXPECT_EQ(StartContainer(again.response.container_id()).error_code(),
            grpc::StatusCode::UNAVAILABLE);
}

// The annotation lists the init container before the sidecar, which starts first.
TEST_F(DaemonInit, NoContainerStartsWithTheDevicesOfOneOfItsPodThatRuns) {
  Start();
  StartGpus();
  const v1::PodSandboxConfig pod = PodConfig(
      "p", "",
      R"({"init":{"init":true,"limits":{"cpu":"500m","memory":"100Mi","nvidia.com/gpu":"1"}},)"
      R"("side":{"init":true,"restartPolicy":"Always","limits":{"cpu":"500m","memory":"100Mi",)"
      R"("nvidia.com/gpu":"1"}},"app":{"limits":{"cpu":"500m","memory":"100Mi"}}})");
  const std::string sandbox = Run(pod);
  const auto container = [](const std::string& name) {
    return podsource::Kubelet(500, 500, 100 * podsource::kMi, name);
  };
  const std::string side = CreateAndStart(sandbox, pod, container("side"));
  const auto init = Create(sandbox, pod, container("init"));
  ASSERT_TRUE(init.status.ok()) << init.status.error_message();
  const grpc::Status refused = StartContainer(init.response.container_id());
  EXPECT_EQ(refused.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_NE(refused.error_message().find("side of the same pod runs with nvidia.com/gpu GPU-"),
            std::string::npos)
      << refused.error_message();
  ASSERT_TRUE(runtime_->EndContainer(side, 0));
  EXPECT_TRUE(StartContainer(init.response.container_id()).ok());
}

TEST_F(DaemonInit, MemoryOfAnEndedInitContainerIsFreeAtTheNextStart) {
  Start(
      StaticConfig("memoryManagerPolicy: Static\nreservedMemory:\n- numaNode: 0\n"
                   "  limits: {memory: 1Gi}\nkubeReserved: {memory: 924Mi}\n"
                   "topologyManagerPolicy: best-effort\n"));
  const v1::PodSandboxConfig pod = PodWithInit("p");
  const std::string sandbox = Run(pod);
  const auto memory = [this] { return ReadText(StateDir() / "memory_manager_state"); };
  const std::string init = CreateAndStart(sandbox, pod, Pinned(4, "init"));
  ASSERT_NE(memory().find("\"init\""), std::string::npos) << memory();
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  CreateAndStart(sandbox, pod, Pinned(1, "side"));
  EXPECT_TRUE(Eventually([&] { return memory().find("\"init\"") == std::string::npos; }))
      << memory();
  EXPECT_NE(memory().find("\"side\""), std::string::npos) << memory();
}

// A kubelet reads the status of a container before it reacts to its end.
TEST_F(DaemonInit, EndedContainerGetsNoUpdatesOnceItsStatusWasRead) {
  Start();
  const auto updates_of = [&](const std::string& id) {
    const auto requests = runtime_->Requests("UpdateContainerResources");
    return std::ranges::count_if(
        requests, [&](const auto& request) { return request.bytes.find(id) != std::string::npos; });
  };
  const v1::PodSandboxConfig pod = BurstablePod("p");
  const std::string sandbox = Run(pod);
  const std::string init = CreateAndStart(sandbox, pod, Shared("init"));
  const std::string app = CreateAndStart(sandbox, pod, Shared("app"));
  const std::string stopped = CreateAndStart(sandbox, pod, Shared("stopped"));
  v1::ContainerStatusRequest status;
  status.set_container_id(init);
  ASSERT_TRUE(Call<v1::ContainerStatusResponse>("ContainerStatus", status).status.ok());
  ASSERT_TRUE(runtime_->EndContainer(init, 0));
  ASSERT_TRUE(Call<v1::ContainerStatusResponse>("ContainerStatus", status).status.ok());
  v1::StopContainerRequest stop;
  stop.set_container_id(stopped);
  ASSERT_TRUE(Call<v1::StopContainerResponse>("StopContainer", stop).status.ok());

  RunOne(PodConfig("pinned"), Pinned(3));
  EXPECT_EQ(CpusOf(app), "0,4-27");
  EXPECT_GE(updates_of(app), 1);
  EXPECT_EQ(updates_of(init), 0);
  EXPECT_EQ(updates_of(stopped), 0);
}

}  // namespace
}  // namespace alignd::daemon
