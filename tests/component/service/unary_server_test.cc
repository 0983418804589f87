// Servers of alignd's own services, against gRPC's client and against bytes written by hand.
#include "service/unary_server.h"

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "deviceplugin/v1beta1/deviceplugin.pb.h"
#include "edge/fake_tree.h"
#include "edge/hand_written.h"
#include "edge/loop_thread.h"
#include "edge/no_threads.h"
#include "edge/raw_call.h"
#include "service/latest_message.h"
#include "simulator/grpc_socket.h"
#include "sync/mutex.h"
#include "sync/task_queue.h"

namespace alignd::service {
namespace {

using grpc::StatusCode;
using testing::CallUnary;
using testing::HandWritten;
using testing::RawAnswer;

constexpr char kMethod[] = "/test.Service/Method";

void Echo(const Call& call) { call.answer(call.request); }

class UnaryServerTest : public ::testing::Test {
 protected:
  void Serve(Methods methods, StreamMethods streams = {}) {
    auto server =
        UnaryServer::Start(services_.loop(), Socket(), std::move(methods), std::move(streams));
    ASSERT_TRUE(server.ok()) << server.error().Text();
    server_ = *std::move(server);
    caller_ = *simulator::Dial(Socket());
  }

  std::string Socket() const { return (tree_.root() / "service.sock").string(); }

  const testing::FakeTree tree_;
  const testing::LoopThread services_;
  TaskQueue queue_{"test"};
  std::unique_ptr<UnaryServer> server_;
  std::shared_ptr<grpc::Channel> caller_;
};

// Keeps the calls that it gets.
class Keeper {
 public:
  Method method() {
    return [this](Call call) {
      const MutexLock lock(mutex_);
      calls_.push_back(std::move(call));
      came_.NotifyAll();
    };
  }
  size_t size() {
    const MutexLock lock(mutex_);
    return calls_.size();
  }
  void WaitFor(size_t count) {
    const MutexLock lock(mutex_);
    while (calls_.size() < count) came_.Wait(mutex_);
  }
  std::vector<Call> Take() {
    const MutexLock lock(mutex_);
    return std::exchange(calls_, {});
  }

 private:
  Mutex mutex_;
  CondVar came_;
  std::vector<Call> calls_ GUARDED_BY(mutex_);
};

TEST_F(UnaryServerTest, AnswersGrpcsClient) {
  Serve({{kMethod, Echo}});
  EXPECT_EQ(CallUnary(caller_, kMethod, "hello").message, "hello");
  EXPECT_EQ(CallUnary(caller_, kMethod, "").message, "");
  const std::string long_text(60 << 10, 'x');
  EXPECT_EQ(CallUnary(caller_, kMethod, long_text).message, long_text);
}

TEST_F(UnaryServerTest, RefusesWhatItDoesNotServe) {
  Serve({{kMethod, Echo},
         {"/test.Service/Long",
          [](const Call& call) { call.answer(std::string((16 << 20) + 1, 'x')); }},
         {"/test.Service/Dropped", [](const Call&) {}},
         {"/test.Service/Typed",
          Computed<v1beta1::RegisterRequest, v1beta1::Empty>([](const auto&, auto&, const auto&) {
            return grpc::Status(StatusCode::NOT_FOUND, "nothing");
          })}});
  const auto status = [&](const std::string& method, const std::string& request) {
    return CallUnary(caller_, method.c_str(), request).status;
  };
  EXPECT_EQ(status("/test.Service/Other", "").error_code(), StatusCode::UNIMPLEMENTED);
  EXPECT_EQ(status("/test.Service/Other", "").error_message(),
            "unknown method /test.Service/Other");
  EXPECT_EQ(status(kMethod, std::string((64 << 10) + 1, 'x')).error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status("/test.Service/Long", "").error_code(), StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(status("/test.Service/Dropped", "").error_code(), StatusCode::UNAVAILABLE);
  EXPECT_EQ(status("/test.Service/Typed", "\xff").error_code(), StatusCode::INTERNAL);
  EXPECT_EQ(status("/test.Service/Typed", "").error_message(), "nothing");
  EXPECT_EQ(CallUnary(caller_, kMethod, "still there").message, "still there");
}

TEST_F(UnaryServerTest, HoldsACallerToItsStreamsThatNeverAcknowledgesTheLimit) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}, {"/test.Service/Echo", Echo}});
  HandWritten caller(Socket());
  constexpr uint32_t kCalls = 1000;
  for (uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(caller.Send(caller.CallFrames(2 * i + 1, kMethod)));
  }
  for (uint32_t refused = 0; refused < kCalls - 100;) {
    const std::optional<uint8_t> type = caller.NextFrame();
    ASSERT_TRUE(type) << "closed after " << refused << " refused streams";
    if (*type == NGHTTP2_RST_STREAM) ++refused;
  }
  EXPECT_EQ(keeper.size(), 100U);
  EXPECT_EQ(CallUnary(caller_, "/test.Service/Echo", "other").message, "other");
  for (const Call& call : keeper.Take()) {
    EXPECT_FALSE(call.IsCancelled());
    call.answer("");
  }
}

// Answers and resets that a caller does not read would be kept, also for calls that have ended.
TEST_F(UnaryServerTest, CallerThatCausesAnswersAndDoesNotReadLosesItsConnection) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()},
         {"/test.Service/Echo", Echo},
         {"/test.Service/Long", [](const Call& call) { call.answer(std::string(4 << 20, 'x')); }}});
  constexpr uint32_t kFrames = 500'000;
  {
    // Each further call is refused with a reset.
    HandWritten caller(Socket());
    for (uint32_t i = 0; i < 100; ++i) {
      ASSERT_TRUE(caller.Send(caller.CallFrames(2 * i + 1, kMethod)));
    }
    keeper.WaitFor(100);
    uint32_t sent = 100;
    while (sent < kFrames && caller.Send(HandWritten::Frame(
                                 NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 2 * sent + 1, ""))) {
      ++sent;
    }
    EXPECT_LT(sent, kFrames);
    for (const Call& call : keeper.Take()) {
      while (!call.IsCancelled()) usleep(1000);
    }
  }
  {
    HandWritten caller(Socket());
    // With windows for it, an answer of 4 MiB that is not read makes all others wait.
    const std::string window("\x3f\xff\xff\xff", 4);
    ASSERT_TRUE(caller.Send(HandWritten::Frame(
        NGHTTP2_SETTINGS, 0, 0, std::string{'\0', NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE} + window)));
    ASSERT_TRUE(caller.Send(HandWritten::Frame(NGHTTP2_WINDOW_UPDATE, 0, 0, window)));
    ASSERT_TRUE(caller.Send(caller.CallFrames(1, "/test.Service/Long")));
    // Also that of a call that has ended.
    uint32_t sent = 1;
    while (sent < kFrames && caller.Send(caller.CallFrames(2 * sent + 1, "/test.Service/Unknown") +
                                         HandWritten::Frame(NGHTTP2_RST_STREAM, 0, 2 * sent + 1,
                                                            {"\0\0\0\x08", 4}))) {
      ++sent;
    }
    EXPECT_LT(sent, kFrames);
  }
  EXPECT_EQ(CallUnary(caller_, "/test.Service/Echo", "other").message, "other");
}

TEST_F(UnaryServerTest, RepeatsTheBeginningOfALongMethodAlone) {
  Serve({{kMethod, Echo}});
  const std::string method = "/" + std::string(3000, 'm');
  EXPECT_EQ(CallUnary(caller_, method.c_str(), "").status.error_message(),
            "unknown method " + method.substr(0, 200));
}

// It may repeat names of the request.
TEST_F(UnaryServerTest, CutsTheTextOfAnErrorThatIsTooLong) {
  constexpr size_t kMaxBytes = 4096;
  Serve({{kMethod, [](Call call) {
            call.answer(grpc::Status(grpc::StatusCode::NOT_FOUND, std::move(call.request)));
          }}});
  const std::string longest(kMaxBytes, 'n');
  grpc::Status status = CallUnary(caller_, kMethod, longest).status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_EQ(status.error_message(), longest);
  status = CallUnary(caller_, kMethod, longest + "n").status;
  EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
  const std::string cut = "... (cut)";
  EXPECT_EQ(status.error_message(), longest.substr(0, kMaxBytes - cut.size()) + cut);
}

// A header list of 1 MB ended its whole connection.
TEST_F(UnaryServerTest, HeadersThatAreTooLongEndTheirCallAlone) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}});
  HandWritten caller(Socket());
  ASSERT_TRUE(caller.Send(caller.CallFrames(1, kMethod)));
  ASSERT_TRUE(caller.Send(caller.LongHeaderFrames(3, 1000)));
  ASSERT_TRUE(caller.Send(caller.CallFrames(5, kMethod)));
  keeper.WaitFor(2);
  for (const Call& call : keeper.Take()) {
    EXPECT_FALSE(call.IsCancelled());
    call.answer("");
  }
  int answers = 0;
  int resets = 0;
  while (answers < 2) {
    const std::optional<uint8_t> type = caller.NextFrame();
    ASSERT_TRUE(type) << "the connection has ended";
    if (*type == NGHTTP2_DATA) ++answers;
    if (*type == NGHTTP2_RST_STREAM) ++resets;
  }
  EXPECT_EQ(resets, 1);
}

TEST_F(UnaryServerTest, StreamsTheLatestMessage) {
  LatestMessage latest;
  Serve({}, {{kMethod, [&] { return latest.Watch(); }}});
  latest.Set("first");
  EXPECT_FALSE(latest.IsWatched());
  {
    testing::RawCall call(caller_, kMethod);
    call.Write("");
    call.WritesDone();
    EXPECT_EQ(call.Read(), "first");
    EXPECT_TRUE(latest.IsWatched());
    latest.Set("second");
    EXPECT_EQ(call.Read(), "second");
    // What a caller does not read is skipped: messages that fill its window, and then the last.
    const std::string large(1 << 20, 'x');
    for (int i = 0; i < 100; ++i) latest.Set(large + std::to_string(i));
    int messages = 0;
    while (call.Read() != large + "99") ++messages;
    EXPECT_LT(messages, 99);
    call.context().TryCancel();
  }
  while (latest.IsWatched()) usleep(1000);
  latest.Set("without watchers");
  testing::RawCall late(caller_, kMethod);
  late.Write("");
  EXPECT_EQ(late.Read(), "without watchers");
  server_.reset();
  EXPECT_EQ(late.Read(), std::nullopt);
  EXPECT_FALSE(late.Finish().ok());
  EXPECT_FALSE(latest.IsWatched());
}

// Whoever reads nothing holds one message, and no more calls than others.
TEST_F(UnaryServerTest, StreamsThatAreNotReadAreLimited) {
  LatestMessage latest;
  Serve({}, {{kMethod, [&] { return latest.Watch(); }}});
  latest.Set(std::string(4 << 20, 'x'));
  HandWritten caller(Socket());
  constexpr uint32_t kCalls = 1000;
  for (uint32_t i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(caller.Send(caller.CallFrames(2 * i + 1, kMethod)));
  }
  // All but 100 are refused, and most of these are ended: together they would hold 400 MiB.
  for (uint32_t ended = 0; ended < kCalls - 20;) {
    const std::optional<uint8_t> type = caller.NextFrame();
    ASSERT_TRUE(type) << "closed after " << ended << " ended streams";
    if (*type == NGHTTP2_RST_STREAM) ++ended;
  }
  testing::RawCall other(caller_, kMethod);
  other.Write("");
  EXPECT_EQ(other.Read()->size(), size_t{4 << 20});
  other.context().TryCancel();
}

TEST_F(UnaryServerTest, ReportsThatTheCallerHasGone) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}});
  std::optional<HandWritten> caller(std::in_place, Socket());
  ASSERT_TRUE(caller->Send(caller->CallFrames(1, kMethod)));
  keeper.WaitFor(1);
  const std::vector<Call> calls = keeper.Take();
  EXPECT_FALSE(calls[0].IsCancelled());
  caller.reset();
  while (!calls[0].IsCancelled()) usleep(1000);
  calls[0].answer("without effect");
}

TEST_F(UnaryServerTest, ClosesIdleConnectionsToServeNewOnes) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}, {"/test.Service/Echo", Echo}});
  std::vector<std::unique_ptr<HandWritten>> callers;
  callers.push_back(std::make_unique<HandWritten>(Socket()));
  ASSERT_TRUE(callers[0]->Send(callers[0]->CallFrames(1, kMethod)));
  keeper.WaitFor(1);
  while (callers.size() < 300) callers.push_back(std::make_unique<HandWritten>(Socket()));
  EXPECT_EQ(CallUnary(caller_, "/test.Service/Echo", "served").message, "served");
  EXPECT_TRUE(callers[1]->IsClosed());  // the oldest that is idle
  EXPECT_FALSE(keeper.Take()[0].IsCancelled());
}

TEST_F(UnaryServerTest, RefusesWhatTheQueueCannotTake) {
  Keeper keeper;
  std::atomic<bool> runs = false;
  std::atomic<bool> goes_on = false;
  Serve({{kMethod, OnQueue(queue_, [&](const Call& call) {
            runs = true;
            while (!goes_on) usleep(1000);
            call.answer(call.request);
          })}});
  std::vector<std::unique_ptr<HandWritten>> callers;
  callers.push_back(std::make_unique<HandWritten>(Socket()));
  ASSERT_TRUE(callers[0]->Send(callers[0]->CallFrames(1, kMethod)));
  while (!runs) usleep(1000);
  for (int i = 0; i < 2; ++i) {
    callers.push_back(std::make_unique<HandWritten>(Socket()));
    for (uint32_t call = 0; call < 60; ++call) {
      ASSERT_TRUE(callers.back()->Send(callers.back()->CallFrames(2 * call + 1, kMethod)));
    }
  }
  while (queue_.size() < kMaxWaiting) usleep(1000);
  EXPECT_EQ(CallUnary(caller_, kMethod, "more").status.error_code(),
            StatusCode::RESOURCE_EXHAUSTED);
  goes_on = true;
  while (queue_.size() > 0) usleep(1000);
  EXPECT_EQ(CallUnary(caller_, kMethod, "later").message, "later");
}

TEST_F(UnaryServerTest, RefusesACallForWhichThereIsNoThread) {
  TaskQueue rare("rare", TaskQueue::kLinger);
  Serve({{"/test.Service/Before", Echo}, {kMethod, OnQueue(rare, Echo)}});
  ASSERT_EQ(CallUnary(caller_, "/test.Service/Before", "connect").message, "connect");
  {
    const testing::NoThreads none;
    const RawAnswer refused = CallUnary(caller_, kMethod, "none");
    EXPECT_EQ(refused.status.error_code(), StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_NE(refused.status.error_message().find("raise TasksMax"), std::string::npos)
        << refused.status.error_message();
  }
  EXPECT_EQ(CallUnary(caller_, kMethod, "later").message, "later");
}

TEST_F(UnaryServerTest, RemovesItsSocketAndEndsWhatWaits) {
  Keeper keeper;
  Serve({{kMethod, keeper.method()}});
  HandWritten caller(Socket());
  ASSERT_TRUE(caller.Send(caller.CallFrames(1, kMethod)));
  keeper.WaitFor(1);
  server_.reset();
  EXPECT_FALSE(std::filesystem::exists(Socket()));
  EXPECT_TRUE(caller.IsClosed());
  const std::vector<Call> calls = keeper.Take();
  EXPECT_TRUE(calls[0].IsCancelled());
  calls[0].answer("too late");
}

}  // namespace
}  // namespace alignd::service
