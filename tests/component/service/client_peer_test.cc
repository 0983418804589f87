// Calls of the client, to a server of alignd's own: no gRPC is used.
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "edge/fake_tree.h"
#include "edge/no_threads.h"
#include "edge/sanitized.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"
#include "service/unary_server.h"

namespace alignd::service {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr char kEcho[] = "/s.S/Echo";
constexpr char kNever[] = "/s.S/Never";
constexpr char kCount[] = "/s.S/Count";
constexpr seconds kPatience{20};

// Three versions, then nothing more.
class ThreeMessages final : public proxy::MessageStream {
 public:
  void Follow(std::function<void()>) override {}
  std::optional<std::string> Next() override {
    if (next_ == 3) return std::nullopt;
    runtime::v1::VersionResponse message;
    message.set_version(std::string(100'000, static_cast<char>('a' + next_++)));
    return message.SerializeAsString();
  }

 private:
  int next_ = 0;
};

class ClientOfAPeer : public ::testing::Test {
 protected:
  ClientOfAPeer() {
    loop_->Start();
    client_ = *Client::Dial(Socket());
  }
  ~ClientOfAPeer() override {
    server_.reset();
    loop_->Stop();
  }

  std::string Socket() const { return (tree_.root() / "peer.sock").string(); }

  void Serve() {
    const auto echo = [](const Call& call) {
      runtime::v1::VersionRequest request;
      ASSERT_TRUE(ReadRequest(call, request));
      runtime::v1::VersionResponse response;
      response.set_version(request.version());
      call.answer(response.SerializeAsString());
    };
    const auto never = [this](const Call& call) {
      const std::lock_guard lock(mutex_);
      waiting_.push_back(call);
      ++arrived_;
    };
    auto started = UnaryServer::Start(loop_, Socket(), {{kEcho, echo}, {kNever, never}},
                                      {{kCount, [] { return std::make_shared<ThreeMessages>(); }}});
    ASSERT_TRUE(started.ok()) << started.error().message;
    server_ = *std::move(started);
  }

  grpc::Status Ask(const std::string& method, const std::string& text,
                   ClientCall::Options options = {.timeout = kPatience}) {
    ClientCall call(options);
    runtime::v1::VersionRequest request;
    request.set_version(text);
    runtime::v1::VersionResponse response;
    const grpc::Status status = client_->CallAndWait(call, method, request, response);
    if (status.ok()) {
      EXPECT_EQ(response.version(), text);
    }
    return status;
  }

  // A call of the method that never answers.
  std::future<grpc::Status> Begin(ClientCall& call) {
    const auto ended = std::make_shared<std::promise<grpc::Status>>();
    client_->StartUnary(call, kNever, runtime::v1::VersionRequest(), ignored_,
                        [ended](const grpc::Status& status) { ended->set_value(status); });
    return ended->get_future();
  }
  void AwaitArrival() {
    const auto until = std::chrono::steady_clock::now() + kPatience;
    while (arrived_ == 0 && std::chrono::steady_clock::now() < until) {
      std::this_thread::sleep_for(milliseconds(1));
    }
    ASSERT_GT(arrived_, 0);
  }
  static grpc::StatusCode CodeOf(std::future<grpc::Status>& ended) {
    if (ended.wait_for(kPatience) != std::future_status::ready) return grpc::StatusCode::DO_NOT_USE;
    return ended.get().error_code();
  }

  const testing::FakeTree tree_;
  const std::shared_ptr<host::EventLoop> loop_ = *host::EventLoop::Make("peer");
  std::mutex mutex_;
  std::vector<Call> waiting_;  // calls that are not answered
  std::atomic<int> arrived_ = 0;
  std::unique_ptr<UnaryServer> server_;
  runtime::v1::VersionResponse ignored_;
  std::shared_ptr<Client> client_;
};

TEST_F(ClientOfAPeer, GetsAnswersOfAnyLength) {
  Serve();
  EXPECT_EQ(client_->WhyNeverConnected(), "");
  for (const size_t size : {size_t{0}, size_t{1}, size_t{20'000}, size_t{60'000}}) {
    EXPECT_TRUE(Ask(kEcho, std::string(size, 'x')).ok()) << size;
  }
  EXPECT_EQ(client_->WhyNeverConnected(), std::nullopt);
}

TEST_F(ClientOfAPeer, GetsAnswersOnManyThreads) {
  Serve();
  std::atomic<int> good = 0;
  std::vector<std::thread> callers;
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      for (int n = 0; n < 50; ++n) good += Ask(kEcho, std::to_string(n)).ok() ? 1 : 0;
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(good, 400);
}

TEST_F(ClientOfAPeer, GetsTheStatusOfAMethodThatIsNotServed) {
  Serve();
  const grpc::Status status = Ask("/s.S/Other", "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(status.error_message(), "unknown method /s.S/Other");
}

TEST_F(ClientOfAPeer, EndsACallAtItsDeadline) {
  Serve();
  EXPECT_EQ(Ask(kNever, "", {.timeout = milliseconds(50)}).error_code(),
            grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_TRUE(Ask(kEcho, "later").ok());
}

TEST_F(ClientOfAPeer, CancelsACallUnderWay) {
  Serve();
  ClientCall call;
  std::future<grpc::Status> ended = Begin(call);
  AwaitArrival();
  call.Cancel();
  EXPECT_EQ(CodeOf(ended), grpc::StatusCode::CANCELLED);
  const auto until = std::chrono::steady_clock::now() + kPatience;
  const auto peer_knows = [&] {
    const std::lock_guard lock(mutex_);
    return waiting_.front().IsCancelled();
  };
  while (!peer_knows() && std::chrono::steady_clock::now() < until) {
    std::this_thread::sleep_for(milliseconds(1));
  }
  EXPECT_TRUE(peer_knows());
  call.Cancel();  // has no effect any more
}

TEST_F(ClientOfAPeer, DoesNotSendACallThatWasCancelledBefore) {
  Serve();
  ClientCall call;
  call.Cancel();
  std::future<grpc::Status> ended = Begin(call);
  EXPECT_EQ(CodeOf(ended), grpc::StatusCode::CANCELLED);
  EXPECT_TRUE(Ask(kEcho, "later").ok());
  EXPECT_EQ(arrived_, 0);
}

TEST_F(ClientOfAPeer, FailsAtOnceWithoutAPeer) {
  const grpc::Status status = Ask(kEcho, "");
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(), Socket() + ": connect: No such file or directory");
  EXPECT_EQ(client_->WhyNeverConnected(), status.error_message());
}

TEST_F(ClientOfAPeer, WaitsForItsPeerIfItShould) {
  const ClientCall::Options waits{.timeout = kPatience, .waits_for_peer = true};
  std::future<grpc::Status> ended =
      std::async(std::launch::async, [&] { return Ask(kEcho, "waits", waits); });
  EXPECT_EQ(ended.wait_for(milliseconds(50)), std::future_status::timeout);
  Serve();
  EXPECT_EQ(CodeOf(ended), grpc::StatusCode::OK);
}

TEST_F(ClientOfAPeer, WaitsNoLongerThanTheDeadline) {
  const grpc::Status status = Ask(kEcho, "", {.timeout = milliseconds(50), .waits_for_peer = true});
  EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
  EXPECT_EQ(status.error_message(),
            "Deadline Exceeded: " + Socket() + ": connect: No such file or directory");
}

TEST_F(ClientOfAPeer, ConnectsAgainAfterThePeerHasEnded) {
  Serve();
  ClientCall call;
  std::future<grpc::Status> ended = Begin(call);
  AwaitArrival();
  server_.reset();
  EXPECT_EQ(CodeOf(ended), grpc::StatusCode::UNAVAILABLE);
  Serve();
  EXPECT_TRUE(Ask(kEcho, "again", {.timeout = kPatience, .waits_for_peer = true}).ok());
}

TEST_F(ClientOfAPeer, IsOutlivedByItsCalls) {
  Serve();
  ClientCall call;
  std::future<grpc::Status> ended = Begin(call);
  AwaitArrival();
  client_.reset();
  EXPECT_EQ(ended.wait_for(milliseconds(20)), std::future_status::timeout);
  call.Cancel();
  EXPECT_EQ(CodeOf(ended), grpc::StatusCode::CANCELLED);
}

TEST_F(ClientOfAPeer, ReadsTheMessagesOfAStreamInOrder) {
  Serve();
  ClientCall call({.timeout = kPatience});
  std::string begins;
  std::promise<grpc::Status> ended;
  client_->Start(
      call, kCount, runtime::v1::VersionRequest(),
      [&](const std::string& message) {
        runtime::v1::VersionResponse read;
        EXPECT_TRUE(read.ParseFromString(message));
        EXPECT_EQ(read.version().size(), 100'000U);
        begins += read.version().front();
        // The stream has no end of its own.
        return begins == "abc" ? grpc::Status(grpc::StatusCode::ABORTED, "enough")
                               : grpc::Status::OK;
      },
      [&](const grpc::Status& status) { ended.set_value(status); });
  const grpc::Status status = ended.get_future().get();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "enough");
  EXPECT_EQ(begins, "abc");
  EXPECT_TRUE(Ask(kEcho, "later").ok());
}

TEST_F(ClientOfAPeer, RefusesASecondMessageOfAUnaryCall) {
  Serve();
  EXPECT_EQ(Ask(kCount, "").error_code(), grpc::StatusCode::INTERNAL);
}

// A timeout may be an hour.
TEST_F(ClientOfAPeer, CallsThatHaveEndedTakeNoMemoryUntilTheirTimeout) {
  if (testing::kSanitized) GTEST_SKIP() << "the heap is not glibc's";
  Serve();
  const auto call = [&] { ASSERT_TRUE(Ask(kEcho, "", {.timeout = std::chrono::hours(1)}).ok()); };
  for (int i = 0; i < 500; ++i) call();
  const size_t before = mallinfo2().uordblks;
  constexpr size_t kCalls = 3000;
  for (size_t i = 0; i < kCalls; ++i) call();
  EXPECT_LT(mallinfo2().uordblks, before + 50 * kCalls);
}

TEST_F(ClientOfAPeer, RunsATaskLater) {
  std::promise<void> ran;
  const auto before = std::chrono::steady_clock::now();
  client_->After(milliseconds(30), [&] { ran.set_value(); });
  ran.get_future().wait();
  EXPECT_GE(std::chrono::steady_clock::now() - before, milliseconds(30));
}

TEST_F(ClientOfAPeer, RunsATaskOnItsThread) {
  std::promise<std::thread::id> of_client;
  client_->After({}, [&] { of_client.set_value(std::this_thread::get_id()); });
  std::promise<std::thread::id> of_task;
  RunOn(CallThread::kCalls, [&] { of_task.set_value(std::this_thread::get_id()); });
  EXPECT_EQ(of_task.get_future().get(), of_client.get_future().get());
}

// In a process of its own, in which no client exists before.
TEST(ClientDial, AtALimitOfThreadsIsAnError) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto dial = [] { return Client::Dial("/run/peer.sock", CallThread::kPlugins); };
  const auto report = [&] {
    std::optional<testing::NoThreads> none(std::in_place);
    bool ran = false;
    RunOn(CallThread::kPlugins, [&] { ran = true; });  // no thread, which could not answer
    const auto refused = dial();
    none.reset();
    const bool is_right = ran && !refused.ok() && refused.error().code == ErrorCode::kIo;
    if (is_right) std::fputs(refused.error().Text().c_str(), stderr);
    _exit(is_right && dial().ok() ? 0 : 1);
  };
  EXPECT_EXIT(report(), ::testing::ExitedWithCode(0),
              "dial /run/peer.sock: start the thread `plugins`: Resource temporarily unavailable; "
              "raise TasksMax");
}

TEST(ClientDial, RefusesAPathThatIsNoSocketAddress) {
  const auto dialled = Client::Dial("relative.sock");
  ASSERT_FALSE(dialled.ok());
  EXPECT_EQ(dialled.error().code, ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace alignd::service
