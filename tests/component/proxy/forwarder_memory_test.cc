// The memory that the forwarder keeps when many calls have ended.
#include <malloc.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <vector>

#include "forwarder_fixture.h"
#include "proxy/grpc_framing.h"
#include "proxy/session.h"
#include "sync/mutex.h"

namespace alignd::proxy {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

constexpr char kHeldMethod[] = "/s.S/Held";

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

  void Connect() {
    host::Descriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(ForwarderEndpoint(), address.sun_path);
    ASSERT_EQ(connect(socket.fd(), reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
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
        const auto stream = session_->Request({{":method", "POST"},
                                               {":scheme", "http"},
                                               {":path", kHeldMethod},
                                               {":authority", "localhost"},
                                               {"content-type", "application/grpc"},
                                               {"te", "trailers"}},
                                              events);
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

}  // namespace
}  // namespace alignd::proxy
