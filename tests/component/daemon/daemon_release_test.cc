// Pods that stop: their CPUs are released at once, unless the pod restarts. The runtime is not
// listed meanwhile, except where a test says so.
#include <gtest/gtest.h>

#include <algorithm>
#include <future>
#include <string>

#include "daemon_fixture.h"

namespace alignd::daemon {
namespace {

class DaemonRelease : public DaemonTest {
 protected:
  void StartWithoutListings() {
    std::string config = StaticConfig();
    const std::string period = "cpuManagerReconcilePeriod: 2s";
    Start(config.replace(config.find(period), period.size(), "cpuManagerReconcilePeriod: 1h"));
  }
  bool HasCpus(const std::string& uid) const {
    return State().find("\"" + uid + "\"") != std::string::npos;
  }
};

// A kubelet removes the sandbox of a deleted or completed pod only at its garbage collection.
TEST_F(DaemonRelease, StoppedPodsCpusComeBackWithoutAnybodysCall) {
  StartWithoutListings();
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  const Running pinned = RunOne(PodConfig("pinned"), Pinned(3));
  ASSERT_EQ(CpusOf(shared.container), "0,4-27");
  ASSERT_TRUE(StopSandbox(pinned.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return CpusOf(shared.container) == "0-27"; }));
  // The state file is written on a thread of its own.
  EXPECT_TRUE(Eventually([&] { return !HasCpus("pinned"); })) << State();
}

TEST_F(DaemonRelease, PodWithASandboxBeingReplacedKeepsItsCpus) {
  StartWithoutListings();
  const Running other = RunOne(PodConfig("other"), Pinned(2));
  const v1::PodSandboxConfig pod = PodConfig("pod");
  const Running first = RunOne(pod, Pinned(3));
  ASSERT_EQ(CpusOf(first.container), "3-5");
  runtime_->SetDelay("RunPodSandbox", seconds(600));
  const size_t runs = runtime_->Requests("RunPodSandbox").size();
  auto replaced = std::async(std::launch::async, [&] { return Run(pod); });
  ASSERT_TRUE(Eventually([&] { return runtime_->Requests("RunPodSandbox").size() > runs; }));
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  ASSERT_TRUE(StopSandbox(other.sandbox).ok());
  // The release of the other pod comes later.
  ASSERT_TRUE(Eventually([&] { return !HasCpus("other"); }));
  runtime_->EndDelays();
  const std::string sandbox = replaced.get();
  EXPECT_TRUE(HasCpus("pod")) << State();
  const auto created = Create(sandbox, pod, Pinned(3));
  ASSERT_TRUE(created.status.ok()) << created.status.error_message();
  EXPECT_EQ(CpusOf(created.response.container_id()), "3-5");
}

TEST_F(DaemonRelease, PodWithASandboxThatCannotBeReplacedLosesItsCpus) {
  StartWithoutListings();
  const v1::PodSandboxConfig pod = PodConfig("pod");
  const Running first = RunOne(pod, Pinned(3));
  runtime_->SetFailure("RunPodSandbox", {grpc::StatusCode::UNKNOWN, "no network"});
  runtime_->SetDelay("RunPodSandbox", seconds(600));
  const size_t runs = runtime_->Requests("RunPodSandbox").size();
  auto replaced = std::async(std::launch::async, [&] { return Run(pod); });
  ASSERT_TRUE(Eventually([&] { return runtime_->Requests("RunPodSandbox").size() > runs; }));
  ASSERT_TRUE(StopSandbox(first.sandbox).ok());
  runtime_->EndDelays();
  EXPECT_EQ(replaced.get(), "");
  EXPECT_TRUE(Eventually([&] { return !HasCpus("pod"); })) << State();
}

TEST_F(DaemonRelease, PodWithAnotherSandboxThatRunsKeepsItsCpus) {
  StartWithoutListings();
  const v1::PodSandboxConfig pod = PodConfig("pod");
  const std::string old_sandbox = Run(pod);
  const Running now = RunOne(pod, Pinned(3));
  const Running other = RunOne(PodConfig("other"), Pinned(2));
  ASSERT_TRUE(StopSandbox(old_sandbox).ok());
  ASSERT_TRUE(StopSandbox(other.sandbox).ok());
  ASSERT_TRUE(Eventually([&] { return !HasCpus("other"); }));
  EXPECT_TRUE(HasCpus("pod")) << State();
  // Removing the running sandbox keeps the stopped one.
  ASSERT_TRUE(runtime_->EndContainer(now.container, 0));
  ASSERT_TRUE(RemoveSandbox(now.sandbox).ok());
  EXPECT_TRUE(Eventually([&] { return !HasCpus("pod"); })) << State();
}

// The containers keep running until they are stopped.
TEST_F(DaemonRelease, SandboxThatDiesByItselfFreesNothingWhileItsContainersRun) {
  Start();
  const Running first = RunOne(PodConfig("first"), Pinned(20));
  const Running shared = RunOne(BurstablePod("shared"), Shared());
  ASSERT_TRUE(runtime_->EndSandbox(first.sandbox));
  const size_t listings = runtime_->Requests("ListContainers").size();
  ASSERT_TRUE(
      Eventually([&] { return runtime_->Requests("ListContainers").size() >= listings + 2; }));
  const v1::PodSandboxConfig pod = PodConfig("second");
  const std::string sandbox = Run(pod);
  EXPECT_FALSE(Create(sandbox, pod, Pinned(20)).status.ok());
  EXPECT_TRUE(HasCpus("first")) << State();
  EXPECT_EQ(CpusOf(shared.container), "0,7-13");
  ASSERT_TRUE(runtime_->EndContainer(first.container, 0));
  EXPECT_TRUE(Eventually([&] { return Create(sandbox, pod, Pinned(20)).status.ok(); }));
}

// Others see that they wait for it only while that is so.
TEST_F(DaemonRelease, PodIsEndingUntilItsStopHasFailed) {
  StartWithoutListings();
  const Running held = RunOne(PodConfig("held"), Pinned(27));
  const auto refusal = [&] {
    const v1::PodSandboxConfig pod = PodConfig("next");
    const grpc::Status status = Create(Run(pod), pod, Pinned(2)).status;
    EXPECT_EQ(status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
    return status.error_message();
  };
  EXPECT_EQ(refusal().find("which is ending"), std::string::npos);
  // The caller's patience is over, not the runtime's work.
  runtime_->SetFailure("StopPodSandbox", {grpc::StatusCode::DEADLINE_EXCEEDED, "it ignores TERM"});
  EXPECT_FALSE(StopSandbox(held.sandbox).ok());
  EXPECT_NE(refusal().find("pod default/pod-held (held), which is ending"), std::string::npos);
  runtime_->SetFailure("StopPodSandbox", {grpc::StatusCode::INTERNAL, "broken"});
  EXPECT_FALSE(StopSandbox(held.sandbox).ok());
  EXPECT_EQ(refusal().find("which is ending"), std::string::npos);
}

}  // namespace
}  // namespace alignd::daemon
