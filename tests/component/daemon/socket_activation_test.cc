// alignd as a process on a socket of systemd, which outlives it: during a restart, answers are
// slow.
#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "process_fixture.h"

namespace alignd::daemon {
namespace {

class SocketActivation : public DaemonProcessTest {
 protected:
  SocketActivation() : listening_(testing::ListenUnix(DaemonOptions().listen)) {
    tree_.Write({"config.yaml", StaticConfig()});
    StartRuntime();
    client_ = DialAsTheKubelet(DaemonOptions().listen);
  }

  void StartProcess(const Options& options) { LaunchAlignd(options, {}, listening_.fd()); }
  void StartProcess() { StartProcess(DaemonOptions()); }

  const host::Descriptor listening_;
};

TEST_F(SocketActivation, CallMadeBeforeTheStartIsAnswered) {
  std::future<grpc::Status> early = std::async(std::launch::async, [this] { return Version(); });
  EXPECT_EQ(early.wait_for(milliseconds(200)), std::future_status::timeout);
  StartProcess();
  const grpc::Status answer = early.get();
  EXPECT_TRUE(answer.ok()) << answer.error_message() << alignd_->Log();
}

TEST_F(SocketActivation, RestartIsASlowAnswer) {
  StartProcess();
  ASSERT_TRUE(Version().ok()) << alignd_->Log();
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
    std::future<grpc::Status> during = std::async(std::launch::async, [this] { return Version(); });
    EXPECT_EQ(during.wait_for(milliseconds(100)), std::future_status::timeout);
    StartProcess();
    const grpc::Status answer = during.get();
    EXPECT_TRUE(answer.ok()) << answer.error_message() << alignd_->Log();
  }
}

TEST_F(SocketActivation, SocketStaysWhenWeGo) {
  StartProcess();
  ASSERT_TRUE(Version().ok()) << alignd_->Log();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  EXPECT_TRUE(std::filesystem::is_socket(DaemonOptions().listen));
}

TEST_F(SocketActivation, CreateUnderWayIsAnsweredBeforeWeEnd) {
  StartProcess();
  const v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  ASSERT_NE(sandbox, "") << alignd_->Log();
  runtime_->SetDelay("CreateContainer", milliseconds(500));
  auto create = std::async(std::launch::async, [&] { return Create(sandbox, pod, Pinned(3)); });
  ASSERT_TRUE(Eventually([this] { return !runtime_->Requests("CreateContainer").empty(); }));
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  const auto created = create.get();
  EXPECT_TRUE(created.status.ok()) << created.status.error_message();
  StartProcess();
  EXPECT_TRUE(StartContainer(created.response.container_id()).ok()) << alignd_->Log();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
}

// The caller gets UNAVAILABLE, retries, and gets the same CPUs.
TEST_F(SocketActivation, CreateCutOffByACrashMayBeRepeated) {
  StartProcess();
  const v1::PodSandboxConfig pod = PodConfig("one");
  const std::string sandbox = Run(pod);
  ASSERT_NE(sandbox, "") << alignd_->Log();
  runtime_->SetDelay("CreateContainer", kPatience);
  auto create = std::async(std::launch::async, [&] { return Create(sandbox, pod, Pinned(3)); });
  ASSERT_TRUE(Eventually([this] { return !runtime_->Requests("CreateContainer").empty(); }));
  alignd_->Kill(SIGKILL);
  EXPECT_EQ(create.get().status.error_code(), grpc::StatusCode::UNAVAILABLE);
  runtime_->SetDelay("CreateContainer", milliseconds(0));

  auto again = std::async(std::launch::async, [&] { return Create(sandbox, pod, Pinned(3)); });
  StartProcess();
  const auto created = again.get();
  ASSERT_TRUE(created.status.ok()) << created.status.error_message() << alignd_->Log();
  EXPECT_EQ(CpusOf(created.response.container_id()), "1-3");
  const Running next = RunOne(PodConfig("next"), Pinned(2));
  EXPECT_EQ(CpusOf(next.container), "4-5");
}

// While alignd restarts three times.
TEST_F(SocketActivation, HammeringCallersLoseNoCall) {
  StartProcess();
  ASSERT_TRUE(Version().ok()) << alignd_->Log();
  RestlessCallers callers(4, [this] { return Version(); });
  for (int round = 0; round < 3; ++round) {
    const size_t before = runtime_->Requests("Version").size();
    EXPECT_TRUE(Eventually([&] { return runtime_->Requests("Version").size() > before + 100; }));
    EXPECT_EQ(alignd_->Kill(SIGTERM), 0) << alignd_->Log();
    StartProcess();
  }
  EXPECT_TRUE(alignd_->WaitForLog("ready:"));
  EXPECT_EQ(callers.End(), std::vector<std::string>());
}

// An answer of 1 MB is being sent; the next call of the caller waits for the next process.
TEST_F(SocketActivation, LongAnswerIsCompleteAlthoughAligndStops) {
  StartProcess();
  v1::PodSandboxConfig pod = PodConfig("large");
  (*pod.mutable_annotations())["text"] = std::string(size_t{1} << 20, 'x');
  ASSERT_NE(Run(pod), "") << alignd_->Log();
  runtime_->SetDelay("ListPodSandbox", milliseconds(300));
  const size_t before = runtime_->Requests("ListPodSandbox").size();
  auto list = std::async(std::launch::async, [this] {
    return Call<v1::ListPodSandboxResponse>("ListPodSandbox", v1::ListPodSandboxRequest());
  });
  ASSERT_TRUE(Eventually([&] { return runtime_->Requests("ListPodSandbox").size() > before; }));
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  const auto answer = list.get();
  ASSERT_TRUE(answer.status.ok()) << answer.status.error_message();
  EXPECT_EQ(answer.response.items_size(), 1);
  runtime_->SetDelay("ListPodSandbox", milliseconds(0));
  StartProcess();
  EXPECT_TRUE(Version().ok()) << alignd_->Log();
}

// The answer is not read, so it would block the stop. The reader sees the connection end.
TEST_F(SocketActivation, StreamThatNeverEndsDoesNotHoldUpTheEnd) {
  StartProcess();
  ASSERT_TRUE(Version().ok()) << alignd_->Log();
  auto stream = std::async(std::launch::async, [this] {
    return testing::CallUnary(client_, "/runtime.v1.RuntimeService/GetContainerEvents", "").status;
  });
  ASSERT_TRUE(Eventually([this] { return !runtime_->Requests("GetContainerEvents").empty(); }));
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_EQ(alignd_->Kill(SIGTERM), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience / 3);
  EXPECT_FALSE(stream.get().ok());
}

TEST_F(SocketActivation, SocketAtAnotherPathIsRefusedWithTheRemedy) {
  Options options = DaemonOptions();
  options.listen = (tree_.root() / "elsewhere.sock").string();
  StartProcess(options);
  EXPECT_TRUE(alignd_->WaitForLog("is not a unix socket that listens at")) << alignd_->Log();
  EXPECT_TRUE(alignd_->WaitForLog("ListenStream=")) << alignd_->Log();
}

}  // namespace
}  // namespace alignd::daemon
