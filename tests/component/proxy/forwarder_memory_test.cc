// The memory that many calls make the forwarder use, and that it keeps when they have ended.
#include <malloc.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "edge/sanitized.h"
#include "edge/unix_socket.h"
#include "forwarder_fixture.h"
#include "proxy/grpc_framing.h"
#include "proxy/session.h"
#include "sync/mutex.h"

namespace alignd::proxy {
namespace {

using testing::kSanitized;

constexpr char kHeldMethod[] = "/s.S/Held";
constexpr char kSmallMethod[] = "/s.S/Small";

Headers RequestHeaders(const char* method) {
  return {{":method", "POST"},
          {":scheme", "http"},
          {":path", method},
          {":authority", "localhost"},
          {"content-type", "application/grpc"},
          {"te", "trailers"}};
}

// Keeps the decisions of its calls. Used on the loop's thread.
struct HeldCalls {
  std::vector<std::function<void(CallHandler::Decision)>> decisions;
  size_t wanted = 0;
  Gate all_are_held;
};

class HoldingHandler final : public CallHandler {
 public:
  explicit HoldingHandler(std::shared_ptr<HeldCalls> held) : held_(std::move(held)) {}
  void OnRequest(std::string, std::function<void(Decision)> decide) override {
    held_->decisions.push_back(std::move(decide));
    if (held_->decisions.size() == held_->wanted) held_->all_are_held.Open();
  }
  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  const std::shared_ptr<HeldCalls> held_;
};

// Counts the ends of all streams of a caller.
class CountingEvents final : public StreamEvents {
 public:
  void OnHeaders(Headers, bool) override {}
  void OnData(const SharedBytes&) override {}
  void OnEnd() override {}
  void OnWritten(size_t) override {}
  void OnClosed(uint32_t) override {
    if (++closed == wanted) all_are_closed.Open();
  }
  size_t closed = 0;
  size_t wanted = 0;
  Gate all_are_closed;
};

class ForwarderMemory : public ForwarderTest {
 protected:
  // Runs `task` on the loop's thread and waits for it.
  void OnLoop(const std::function<void()>& task) {
    Gate done;
    loop_->Post([&] {
      task();
      done.Open();
    });
    ASSERT_TRUE(done.Wait());
  }

  static bool Eventually(const std::function<bool()>& is_so) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!is_so()) {
      if (std::chrono::steady_clock::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return true;
  }

  void Connect() {
    host::Descriptor socket =
        testing::ConnectUnix(ForwarderEndpoint(), SOCK_STREAM | SOCK_NONBLOCK);
    ASSERT_GE(socket.fd(), 0);
    OnLoop([&] {
      auto session =
          Session::MakeClient(*loop_, std::move(socket), {.on_closed = [](const auto&) {}});
      ASSERT_TRUE(session.ok()) << session.error().message;
      session_ = *std::move(session);
    });
  }

  // So many calls at a time, until all have ended.
  void CallAtOnce(size_t calls) {
    CountingEvents events;
    events.wanted = calls;
    const auto held = std::make_shared<HeldCalls>();
    held->wanted = calls;
    held_ = held;
    OnLoop([&] {
      for (size_t i = 0; i < calls; ++i) {
        const auto stream = session_->Request(RequestHeaders(kHeldMethod), events);
        ASSERT_TRUE(stream);
        session_->Write(*stream, FrameOf("request"));
        session_->End(*stream);
      }
    });
    ASSERT_TRUE(held->all_are_held.Wait());
    OnLoop([&] { held->decisions.clear(); });  // a dropped decision is an answer
    ASSERT_TRUE(events.all_are_closed.Wait());
    OnLoop([] {});  // the end of that round
  }

  std::shared_ptr<HeldCalls> held_;  // the loop's thread reads it when a call begins
  std::unique_ptr<Session> session_;
};

// A list of weak pointers kept the memory of each call that had ended, until as many more came.
TEST_F(ForwarderMemory, ManyCallsThatHaveEndedLeaveNothing) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer replaces the allocator that counts";
  StartForwarder([this](const std::string& method) -> std::unique_ptr<CallHandler> {
    return method == kHeldMethod ? std::make_unique<HoldingHandler>(held_) : nullptr;
  });
  Connect();
  CallAtOnce(10);
  const size_t before = mallinfo2().uordblks;
  constexpr size_t kCalls = 10'000;
  CallAtOnce(kCalls);
  const size_t after = mallinfo2().uordblks;
  constexpr size_t kMaxKept = 2 << 20;
  EXPECT_LT(after, before + kMaxKept);
  OnLoop([&] { session_.reset(); });
}

// Counts how the calls of a caller that reads no answer end.
class EndedCalls final : public StreamEvents {
 public:
  void OnHeaders(Headers headers, bool) override {
    if (const std::string_view status = headers.Find("grpc-status"); !status.empty()) {
      Count(std::string(status));
    }
  }
  void OnData(const SharedBytes&) override {}  // never Consumed
  void OnEnd() override {}
  void OnWritten(size_t) override {}
  void OnClosed(uint32_t code) override {
    if (code != NGHTTP2_NO_ERROR) Count("reset " + std::to_string(code));
  }

  // Calls that ended with RESOURCE_EXHAUSTED.
  size_t exhausted() {
    const MutexLock lock(mutex_);
    const auto found = ends_.find(std::to_string(grpc::StatusCode::RESOURCE_EXHAUSTED));
    return found == ends_.end() ? 0 : found->second;
  }
  // Waits for so many ends like that.
  bool Wait(const std::string& end, size_t calls) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    const MutexLock lock(mutex_);
    while (ends_[end] < calls) {
      if (!changed_.WaitUntil(mutex_, deadline)) return ends_[end] >= calls;
    }
    return true;
  }

 private:
  void Count(const std::string& end) {
    const MutexLock lock(mutex_);
    ++ends_[end];
    changed_.NotifyAll();
  }

  Mutex mutex_;
  CondVar changed_;
  std::map<std::string, size_t> ends_ GUARDED_BY(mutex_);
};

constexpr size_t kMaxHeld = 4 << 20;
const std::string kExhausted = std::to_string(grpc::StatusCode::RESOURCE_EXHAUSTED);

// A handler goes on with its request when the caller has gone: a caller that comes again and again
// made such requests pile up while the runtime did not answer.
TEST_F(ForwarderMemory, RequestsOfCallersThatHaveGoneAreLimited) {
  StartForwarder(
      [this](const std::string& method) -> std::unique_ptr<CallHandler> {
        return method == kHeldMethod ? std::make_unique<HoldingHandler>(held_) : nullptr;
      },
      kMaxHeld);
  const std::string request(kMaxHeld / 5 * 2, 'a');  // two of them fit
  const auto held = std::make_shared<HeldCalls>();
  held->wanted = 2;
  OnLoop([&] { held_ = held; });
  {
    RawCall first(caller_, kHeldMethod);
    RawCall second(caller_, kHeldMethod);
    EXPECT_TRUE(first.Write(request));
    EXPECT_TRUE(second.Write(request));
    ASSERT_TRUE(held->all_are_held.Wait());
    first.context().TryCancel();
    second.context().TryCancel();
    EXPECT_EQ(first.Finish().error_code(), grpc::StatusCode::CANCELLED);
    EXPECT_EQ(second.Finish().error_code(), grpc::StatusCode::CANCELLED);
  }
  const grpc::Status third = CallUnary(caller_, kHeldMethod, request).status;
  EXPECT_EQ(third.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(third.error_message().find("callers that have gone"), std::string::npos);
  const auto later = std::make_shared<HeldCalls>();
  later->wanted = 1;
  OnLoop([&] {
    held->decisions.clear();
    held_ = later;
  });
  RawCall fourth(caller_, kHeldMethod);
  EXPECT_TRUE(fourth.Write(request));
  EXPECT_TRUE(later->all_are_held.Wait());
  OnLoop([&] { later->decisions.clear(); });
  EXPECT_EQ(fourth.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Only the bytes of such requests were counted, not what a handler keeps for each: millions of
// small requests could wait for a runtime that did not answer.
TEST_F(ForwarderMemory, SmallRequestsOfCallersThatHaveGoneAreLimited) {
  StartForwarder(
      [this](const std::string& method) -> std::unique_ptr<CallHandler> {
        return method == kHeldMethod ? std::make_unique<HoldingHandler>(held_) : nullptr;
      },
      kMaxHeld);
  Connect();
  const auto held = std::make_shared<HeldCalls>();
  OnLoop([&] { held_ = held; });
  constexpr size_t kCalls = 4'000;  // of some bytes each
  EndedCalls ends;
  for (size_t i = 0; i < kCalls; ++i) {
    OnLoop([&] {
      const auto stream = session_->Request(RequestHeaders(kHeldMethod), ends);
      ASSERT_TRUE(stream);
      session_->Write(*stream, FrameOf("request"));
      session_->End(*stream);
    });
    if (i % 100 != 99) continue;
    // The caller goes, and comes again.
    ASSERT_TRUE(Eventually([&] {
      size_t known = 0;
      OnLoop([&] { known = held->decisions.size() + ends.exhausted(); });
      return known == i + 1;
    }));
    OnLoop([&] { session_->Close(); });
    Connect();
  }
  size_t kept = 0;
  OnLoop([&] { kept = held->decisions.size(); });
  EXPECT_LE(kept, kMaxHeld / 2048);
  EXPECT_GT(kept, kMaxHeld / 4096);
  OnLoop([&] {
    held->decisions.clear();
    session_.reset();
  });
}

// A request of many small parts takes many times its bytes once it is parsed.
TEST_F(ForwarderMemory, ParsedRequestsAreLimited) {
  constexpr size_t kTimes = 100;
  StartForwarder(
      [this](const std::string& method) -> std::unique_ptr<CallHandler> {
        return method == kHeldMethod ? std::make_unique<HoldingHandler>(held_) : nullptr;
      },
      kMaxHeld,
      [](const std::string& method, const std::string& request) {
        EXPECT_EQ(method, kHeldMethod);
        return kTimes * request.size();
      });
  const RawAnswer refused =
      Call(kHeldMethod, std::string(rpc::kMaxParsedRequestBytes / kTimes + 1, 'a'));
  EXPECT_EQ(refused.status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_NE(refused.status.error_message().find("so many parts"), std::string::npos);
  const auto held = std::make_shared<HeldCalls>();
  held->wanted = 1;
  OnLoop([&] { held_ = held; });
  const std::string request(kMaxHeld / kTimes / 3 * 2, 'a');
  RawCall first(caller_, kHeldMethod, SetPatience);
  EXPECT_TRUE(first.Write(request));
  ASSERT_TRUE(held->all_are_held.Wait());
  EXPECT_EQ(Call(kHeldMethod, request).status.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED)
      << "two of them exceed the limit";
  OnLoop([&] { held->decisions.clear(); });
  EXPECT_EQ(first.Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

// Each call held as much as its caller sent, and nothing limited the sum: 2.3 GB by one connection.
TEST_F(ForwarderMemory, UnfinishedRequestsTogetherAreLimited) {
  class RefusingHandler final : public CallHandler {
    void OnRequest(std::string, std::function<void(Decision)> decide) override {
      decide(grpc::Status(grpc::StatusCode::ABORTED, "decided"));
    }
    void OnResponse(const grpc::Status&, const std::string*) override {}
  };
  StartForwarder([](const std::string&) { return std::make_unique<RefusingHandler>(); }, kMaxHeld);
  Connect();
  constexpr size_t kCalls = 20;
  constexpr size_t kSentPart = 1 << 20;  // of a message that is longer
  EndedCalls ends;
  OnLoop([&] {
    for (size_t i = 0; i < kCalls; ++i) {
      const auto stream = session_->Request(RequestHeaders(kHeldMethod), ends);
      ASSERT_TRUE(stream);
      session_->Write(*stream, FrameOf(std::string(2 * kSentPart, 'a')).substr(0, kSentPart));
    }
  });
  EXPECT_TRUE(ends.Wait(kExhausted, kCalls - kMaxHeld / kSentPart));
  // The calls that hold little are not those that end.
  const RawAnswer small = Call(kHeldMethod, "small");
  EXPECT_EQ(small.status.error_code(), grpc::StatusCode::ABORTED);
  OnLoop([&] { session_.reset(); });
}

TEST_F(ForwarderMemory, UnreadAnswersTogetherAreLimited) {
  constexpr size_t kAnswer = 8 << 20;
  StartBackend({{kHeldMethod,
                 [](grpc::ServerContext&, RawStream& stream) {
                   stream.Write(ToBuffer(std::string(kAnswer, 'a')));
                   return grpc::Status::OK;
                 }},
                {kSmallMethod, [](grpc::ServerContext&, RawStream& stream) {
                   stream.Write(ToBuffer("small"));
                   return grpc::Status::OK;
                 }}});
  StartForwarder([](const std::string&) { return nullptr; }, kMaxHeld);
  Connect();
  constexpr size_t kCalls = 10;
  EndedCalls ends;
  OnLoop([&] {
    for (size_t i = 0; i < kCalls; ++i) {
      const auto stream = session_->Request(RequestHeaders(kHeldMethod), ends);
      ASSERT_TRUE(stream);
      session_->Write(*stream, FrameOf("request"));
      session_->End(*stream);
    }
  });
  // Of the others, the forwarder may hold the limit.
  EXPECT_TRUE(ends.Wait("reset " + std::to_string(NGHTTP2_ENHANCE_YOUR_CALM), kCalls / 2));
  EXPECT_EQ(Call(kSmallMethod, "request").message, "small");
  OnLoop([&] { session_.reset(); });
}

}  // namespace
}  // namespace alignd::proxy
