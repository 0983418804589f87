// Pods that do not fit at the moment: CreateContainer is held inside its deadline, and the pod
// keeps its place in the queue.
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <optional>
#include <string>
#include <utility>

#include "control/control_client.h"
#include "daemon/handover.h"
#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonQueue : public DaemonTest {
 protected:
  Options DaemonOptions() const override {
    Options options = DaemonTest::DaemonOptions();
    options.on_refusal = on_refusal_;
    return options;
  }

  using Created = Answer<v1::CreateContainerResponse>;
  // CreateContainer with that many CPUs, in a call of its own.
  std::future<Created> CreateLater(const std::string& sandbox, const v1::PodSandboxConfig& pod,
                                   int cpus, milliseconds deadline = kLong) {
    v1::CreateContainerRequest request;
    request.set_pod_sandbox_id(sandbox);
    *request.mutable_config() = Pinned(cpus);
    *request.mutable_sandbox_config() = pod;
    return std::async(std::launch::async, [this, request, deadline] {
      return Call<v1::CreateContainerResponse>("CreateContainer", request, deadline);
    });
  }
  control::v1::GetStatusResponse Status() const {
    const auto status = control::ControlClient(DaemonOptions().ControlSocket()).GetStatus();
    return status.ok() ? *status : control::v1::GetStatusResponse();
  }
  // 0: the pod has no place.
  uint32_t PositionOf(const std::string& uid) const {
    const control::v1::GetStatusResponse status = Status();
    for (const control::v1::PendingPod& pod : status.pending()) {
      if (pod.pod_uid() == uid) return pod.position();
    }
    return 0;
  }
  bool AwaitPosition(const std::string& uid, uint32_t position) const {
    return Eventually([&] { return PositionOf(uid) == position; });
  }
  static bool Says(const grpc::Status& status, const std::string& text) {
    return status.error_message().find(text) != std::string::npos;
  }
  static v1::PodSandboxConfig PodOf(const std::string& uid, int cpus) {
    return PodConfig(uid, "", Annotation(cpus, 0));
  }
  // 27 CPUs can be assigned.
  Running Occupy(int cpus = 20) { return RunOne(PodOf("a", cpus), Pinned(cpus)); }
  void End(const Running& running) {
    EXPECT_TRUE(StopSandbox(running.sandbox).ok());
    EXPECT_TRUE(RemoveSandbox(running.sandbox).ok());
  }

  static constexpr std::chrono::minutes kLong{10};
  OnRefusal on_refusal_;
};

TEST_F(DaemonQueue, AHeldCallGoesOnWithinTheCallWhenAnotherPodEnds) {
  Start();
  const Running running = Occupy();
  const std::string sandbox = Run(PodOf("b", 10));
  auto later = CreateLater(sandbox, PodOf("b", 10), 10);
  ASSERT_TRUE(AwaitPosition("b", 1));
  EXPECT_EQ(runtime_->Requests("CreateContainer").size(), 1U);
  End(running);
  const Created created = later.get();
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpuSet::Parse(CpusOf(created.response.container_id()))->Count(), 10);
  EXPECT_EQ(PositionOf("b"), 0U);
}

TEST_F(DaemonQueue, BeforeItsDeadlineTheCallerGetsTheReasonThePositionAndTheHolder) {
  Start();
  Occupy();
  const std::string sandbox = Run(PodOf("b", 10));
  const Created created = CreateLater(sandbox, PodOf("b", 10), 10, seconds(2)).get();
  EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  for (const char* const text :
       {"Free: NUMA node 0: ", "What would help: it fits when other pods end",
        "pod default/pod-a (a): container app has CPUs ", "Waits: position 1 of 1 in the queue"}) {
    EXPECT_TRUE(Says(created.status, text)) << text << ": " << created.status.error_message();
  }
  EXPECT_EQ(PositionOf("b"), 1U);  // for the kubelet's next call
  // It is reported as one that waits.
  const auto pods = control::ControlClient(DaemonOptions().ControlSocket()).ListPods();
  ASSERT_TRUE(pods.ok());
  ASSERT_EQ(pods->waiting_size(), 1);
  EXPECT_EQ(pods->waiting(0).pod(), "default/pod-b");
  const auto explained = control::ControlClient(DaemonOptions().ControlSocket()).Explain("b", 1);
  ASSERT_TRUE(explained.ok());
  ASSERT_EQ(explained->decisions_size(), 1);
  EXPECT_EQ(explained->decisions(0).outcome(), "waiting");
  EXPECT_EQ(explained->decisions(0).position(), 1U);
}

TEST_F(DaemonQueue, ALaterPodThatWouldFitIsServedAfterIt) {
  Start();
  const Running running = Occupy();
  const std::string first = Run(PodOf("b", 10));
  auto earlier = CreateLater(first, PodOf("b", 10), 10);
  ASSERT_TRUE(AwaitPosition("b", 1));
  const std::string second = Run(PodOf("c", 4));
  auto later = CreateLater(second, PodOf("c", 4), 4);
  ASSERT_TRUE(AwaitPosition("c", 2));
  EXPECT_FALSE(RunOne(BurstablePod("shared"), Shared()).container.empty());  // takes nothing of it
  End(running);
  EXPECT_TRUE(earlier.get().status.ok());
  EXPECT_TRUE(later.get().status.ok());
}

TEST_F(DaemonQueue, ARemovedSandboxLeavesTheQueue) {
  Start();
  Occupy();
  const std::string first = Run(PodOf("b", 10));
  auto earlier = CreateLater(first, PodOf("b", 10), 10);
  ASSERT_TRUE(AwaitPosition("b", 1));
  const std::string second = Run(PodOf("c", 4));
  auto later = CreateLater(second, PodOf("c", 4), 4);
  ASSERT_TRUE(AwaitPosition("c", 2));
  EXPECT_TRUE(StopSandbox(first).ok());
  // With "the sandbox was stopped" if it was held, with its refusal if it was being tried again.
  EXPECT_FALSE(earlier.get().status.ok());
  EXPECT_TRUE(RemoveSandbox(first).ok());
  EXPECT_TRUE(later.get().status.ok());
  EXPECT_EQ(PositionOf("b"), 0U);
}

// The grace period of a stopped pod ends, as for one that is assigned something.
TEST_F(DaemonQueue, AStoppedSandboxLeavesTheQueueToo) {
  Start();
  Occupy();
  const std::string first = Run(PodOf("b", 10));
  ASSERT_TRUE(AwaitPosition("b", 1));
  EXPECT_TRUE(StopSandbox(first).ok());
  EXPECT_TRUE(AwaitPosition("b", 0));
}

TEST_F(DaemonQueue, WithRefuseTheCallIsAnsweredAtOnceAndStopsNoOtherPod) {
  on_refusal_.waits = false;
  Start();
  Occupy();
  const std::string sandbox = Run(PodOf("b", 10));
  const Created created = CreateLater(sandbox, PodOf("b", 10), 10).get();
  EXPECT_EQ(created.status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_FALSE(Says(created.status, "queue")) << created.status.error_message();
  EXPECT_EQ(PositionOf("b"), 0U);
  EXPECT_FALSE(RunOne(PodOf("c", 4), Pinned(4)).container.empty());
}

TEST_F(DaemonQueue, WithFailAfterThePodIsRefusedFromThenOn) {
  on_refusal_.fail_after_ms = 500;
  Start();
  const Running running = Occupy();
  const std::string sandbox = Run(PodOf("b", 10));
  const Created created = CreateLater(sandbox, PodOf("b", 10), 10).get();
  EXPECT_TRUE(Says(created.status, "as long as --on-refusal allows"))
      << created.status.error_message();
  End(running);
  EXPECT_TRUE(
      Says(CreateLater(sandbox, PodOf("b", 10), 10).get().status, "is refused from now on"));
  EXPECT_FALSE(RunOne(PodOf("c", 10), Pinned(10)).container.empty());
}

TEST_F(DaemonQueue, AfterARestartTheOrderIsThatOfTheFirstCalls) {
  Start();
  const Running running = Occupy();
  const std::string first = Run(PodOf("b", 10));
  const std::string second = Run(PodOf("c", 12));
  ASSERT_TRUE(AwaitPosition("c", 2));
  StopDaemon();
  StartDaemon();
  auto later = CreateLater(second, PodOf("c", 12), 12);
  ASSERT_TRUE(AwaitPosition("c", 1));
  auto earlier = CreateLater(first, PodOf("b", 10), 10);
  ASSERT_TRUE(AwaitPosition("b", 2));
  End(running);
  EXPECT_TRUE(later.get().status.ok());
  EXPECT_TRUE(earlier.get().status.ok());
}

// As for SIGHUP and `alignctl apply`.
TEST_F(DaemonQueue, AChangeOfTheConfigurationKeepsTheOrderAndAnswersHeldCalls) {
  Start();
  Occupy();
  const std::string first = Run(PodOf("b", 10));
  auto held = CreateLater(first, PodOf("b", 10), 10);
  ASSERT_TRUE(AwaitPosition("b", 1));
  (void)Run(PodOf("c", 12));
  ASSERT_TRUE(AwaitPosition("c", 2));
  Handover handover = daemon_->Leave();
  handover.node = daemon_->node();
  daemon_.reset();
  EXPECT_TRUE(Says(held.get().status, "alignd is stopping"));
  auto next = Daemon::Start(DaemonOptions(), nullptr, std::move(handover));
  ASSERT_TRUE(next.ok()) << next.error().Text();
  daemon_ = *std::move(next);
  EXPECT_TRUE(AwaitPosition("b", 1));
  EXPECT_EQ(PositionOf("c"), 2U);
}

}  // namespace
}  // namespace alignd::daemon
