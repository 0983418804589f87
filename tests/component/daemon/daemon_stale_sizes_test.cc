// Containers that the kubelet starts again after a resize of another one: the annotation and the
// Pods API have sizes that the other one does not have.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "core/pod_builder.h"
#include "daemon_fixture.h"
#include "simulator/pods_api.h"

namespace alignd::daemon {
namespace {

using podsource::kMi;

class DaemonStaleSizes : public DaemonTest {
 protected:
  // A Guaranteed pod with that sum.
  static v1::PodSandboxConfig Sum(v1::PodSandboxConfig pod, int cpus, int64_t memory) {
    *pod.mutable_linux()->mutable_resources() =
        podsource::Kubelet(cpus * 1000, cpus * 1000, memory).linux().resources();
    return pod;
  }
  static v1::ContainerConfig Sized(const std::string& name, int cpus, int64_t memory,
                                   uint32_t attempt = 0) {
    v1::ContainerConfig container = podsource::Kubelet(cpus * 1000, cpus * 1000, memory, name);
    container.mutable_metadata()->set_attempt(attempt);
    return container;
  }
  static v1::PodSandboxConfig IntelPod() {
    v1::PodSandboxConfig pod = PodConfig("p");
    (*pod.mutable_annotations())["intel.com/resources"] =
        R"({"initContainers":{"side":{"limits":{"cpu":"2","memory":"100Mi"}}},)"
        R"("containers":{"app":{"limits":{"cpu":"4","memory":"400Mi"}},)"
        R"("late":{"limits":{"cpu":"1","memory":"10Mi"}}}})";
    return pod;
  }
};

constexpr char kAll[] = R"("p":{"app":"3-6","late":"7","side":"1-2"})";

TEST_F(DaemonStaleSizes, SidecarKeepsItsCpusWhenItAndAnotherOneAreStartedAgain) {
  Start();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  v1::PodSandboxConfig pod = Sum(IntelPod(), 7, 510 * kMi);
  const std::string sandbox = Run(pod);
  ASSERT_NE(State().find(kAll), std::string::npos) << State();
  const std::string side = CreateAndStart(sandbox, pod, Sized("side", 2, 100 * kMi));
  const std::string app = CreateAndStart(sandbox, pod, Sized("app", 4, 400 * kMi));
  CreateAndStart(sandbox, pod, Sized("late", 1, 10 * kMi));
  // The memory of `app` is resized. With the sizes of the annotation, `side` is no sidecar.
  pod = Sum(pod, 7, 460 * kMi);
  ASSERT_TRUE(runtime_->EndContainer(side, 1));
  const std::string side_again = CreateAndStart(sandbox, pod, Sized("side", 2, 100 * kMi, 1));
  ASSERT_TRUE(runtime_->EndContainer(app, 1));
  CreateAndStart(sandbox, pod, Sized("app", 4, 350 * kMi, 1));
  // A new pod gets no CPU of it.
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "8-9");
  EXPECT_EQ(CpusOf(side_again), "1-2");
  EXPECT_NE(State().find(kAll), std::string::npos) << State();
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0,10-27"; }));
}

// `late` starts for the first time, so nothing shows that its pod may have been resized.
TEST_F(DaemonStaleSizes, SidecarKeepsItsCpusWhenALaterContainerStartsForTheFirstTime) {
  Start();
  v1::PodSandboxConfig pod = Sum(IntelPod(), 7, 510 * kMi);
  const std::string sandbox = Run(pod);
  ASSERT_NE(State().find(kAll), std::string::npos) << State();
  CreateAndStart(sandbox, pod, Sized("side", 2, 100 * kMi));
  CreateAndStart(sandbox, pod, Sized("app", 4, 400 * kMi));
  pod = Sum(pod, 7, 460 * kMi);
  CreateAndStart(sandbox, pod, Sized("late", 1, 10 * kMi));
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "8-9");
  EXPECT_NE(State().find(kAll), std::string::npos) << State();
}

// The pod was never resized. Its init container uses CPUs of `app`, which has not started yet.
TEST_F(DaemonStaleSizes, InitContainerThatFailsOnceLeavesTheOthersTheirCpus) {
  Start();
  v1::PodSandboxConfig pod = PodConfig("p");
  (*pod.mutable_annotations())["intel.com/resources"] =
      R"({"initContainers":{"init":{"limits":{"cpu":"1","memory":"10Mi"}}},)"
      R"("containers":{"app":{"limits":{"cpu":"4","memory":"400Mi"}}}})";
  pod = Sum(pod, 4, 400 * kMi);
  const std::string sandbox = Run(pod);
  constexpr char kOfApp[] = R"("app":"1-4")";
  ASSERT_NE(State().find(kOfApp), std::string::npos) << State();
  const std::string init = CreateAndStart(sandbox, pod, Sized("init", 1, 10 * kMi));
  ASSERT_TRUE(runtime_->EndContainer(init, 1));
  const std::string again = CreateAndStart(sandbox, pod, Sized("init", 1, 10 * kMi, 1));
  EXPECT_NE(State().find(kOfApp), std::string::npos) << State();
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "5-6");
  ASSERT_TRUE(runtime_->EndContainer(again, 0));
  const std::string app = CreateAndStart(sandbox, pod, Sized("app", 4, 400 * kMi));
  EXPECT_EQ(CpusOf(app), "1-4");
}

// `a` has been resized to 4 CPUs before the sandbox was created again, and `b` comes first.
TEST_F(DaemonStaleSizes, LargerContainerGetsItsCpusAfterOneThatAgrees) {
  for (const bool has_api : {false, true}) {
    SCOPED_TRACE(has_api);
    Start(StaticConfig("topologyManagerPolicy: single-numa-node\ntopologyManagerScope: pod\n"));
    std::unique_ptr<simulator::PodsApi> api;
    v1::PodSandboxConfig pod = PodConfig("p");
    if (has_api) {
      auto started = simulator::PodsApi::Start(PodsApiEndpoint());
      ASSERT_TRUE(started.ok()) << started.error().Text();
      api = *std::move(started);
      // The kubelet has not allowed a resize to less yet.
      api->SetPod(MakePod("p", {App("a", {{"cpu", "2"}, {"memory", "100Mi"}}),
                                App("b", {{"cpu", "2"}, {"memory", "100Mi"}})}));
    } else {
      pod = PodConfig("p", "",
                      R"({"a":{"limits":{"cpu":"2","memory":"100Mi"}},)"
                      R"("b":{"limits":{"cpu":"2","memory":"100Mi"}}})");
    }
    pod.mutable_metadata()->set_attempt(1);
    pod = Sum(pod, 6, 200 * kMi);
    const std::string sandbox = Run(pod);
    EXPECT_EQ(State().find("\"p\""), std::string::npos) << State();
    const std::string b = CreateAndStart(sandbox, pod, Sized("b", 2, 100 * kMi));
    const std::string a = CreateAndStart(sandbox, pod, Sized("a", 4, 100 * kMi));
    EXPECT_EQ(CpusOf(b), "1-2");
    EXPECT_EQ(CpusOf(a), "3-6");
    StopDaemon();
    runtime_.reset();
    std::filesystem::remove_all(StateDir());
    watch_.Forget();
  }
}

}  // namespace
}  // namespace alignd::daemon
