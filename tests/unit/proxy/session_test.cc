#include "proxy/session.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace alignd::proxy {
namespace {

class Nothing final : public StreamEvents {
 public:
  void OnHeaders(Headers, bool) override {}
  void OnData(const SharedBytes&) override {}
  void OnEnd() override {}
  void OnWritten(size_t) override {}
  void OnClosed(uint32_t) override {}
};

// Notes after each round of the loop how much has arrived.
class Arrivals final : public StreamEvents {
 public:
  explicit Arrivals(host::EventLoop& loop) : loop_(loop) {}

  StreamEvents* Accept() {
    ++streams_;
    NoteSoon();
    return this;
  }
  void OnHeaders(Headers, bool) override {}
  void OnData(const SharedBytes& data) override {
    bytes_ += data.bytes.size();
    NoteSoon();
  }
  void OnEnd() override {}
  void OnWritten(size_t) override {}
  void OnClosed(uint32_t) override {}

  size_t streams() const { return streams_; }
  size_t bytes() const { return bytes_; }
  const std::vector<size_t>& streams_after_rounds() const { return after_rounds_; }
  // The round in which the last of it arrived has ended.
  bool is_noted() const { return !notes_; }

 private:
  void NoteSoon() {
    if (std::exchange(notes_, true)) return;
    loop_.AtEndOfRound([this] {
      notes_ = false;
      after_rounds_.push_back(streams_);
    });
  }

  host::EventLoop& loop_;
  size_t streams_ = 0;
  size_t bytes_ = 0;
  bool notes_ = false;
  std::vector<size_t> after_rounds_;
};

// A client and a server, both on one loop.
class SessionReads : public ::testing::Test {
 protected:
  SessionReads() {
    loop_->Start();
    std::array<int, 2> ends{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends.data()), 0);
    std::promise<void> ready;
    OnLoop([&] {
      server_ = *Session::MakeServer(*loop_, host::Descriptor(ends[0]),
                                     {.accept = [this](int32_t) { return arrivals_.Accept(); },
                                      .on_closed = [](const std::string&) {}},
                                     /*max_streams=*/1000);
      client_ = *Session::MakeClient(
          *loop_, host::Descriptor(ends[1]),
          {.on_ready = [&ready] { ready.set_value(); }, .on_closed = [](const std::string&) {}});
    });
    ready.get_future().get();
  }
  ~SessionReads() override {
    OnLoop([this] {
      client_.reset();
      server_.reset();
    });
    loop_->Stop();
  }

  // Runs it on the loop's thread, and waits.
  void OnLoop(const std::function<void()>& task) {
    std::promise<void> ran;
    loop_->Post([&] {
      task();
      ran.set_value();
    });
    ran.get_future().get();
  }

  void WaitFor(const std::function<bool()>& done) {
    for (bool is_done = false; !is_done;) OnLoop([&] { is_done = done(); });
  }

  int32_t Request() {
    return *client_->Request({{":method", "POST"},
                              {":scheme", "http"},
                              {":path", "/runtime.v1.RuntimeService/ListContainers"},
                              {":authority", "localhost"}},
                             nothing_);
  }

  const std::shared_ptr<host::EventLoop> loop_ = *host::EventLoop::Make();
  Nothing nothing_;
  Arrivals arrivals_{*loop_};
  std::unique_ptr<Session> server_;
  std::unique_ptr<Session> client_;
};

TEST_F(SessionReads, CallsThatArriveTogetherAreHandledInSeveralRounds) {
  constexpr size_t kCalls = 64;
  OnLoop([this] {
    for (size_t i = 0; i < kCalls; ++i) {
      const int32_t stream = Request();
      client_->Write(stream, std::string(20, 'x'));
      client_->End(stream);
    }
  });
  WaitFor([this] { return arrivals_.bytes() == kCalls * 20 && arrivals_.is_noted(); });
  EXPECT_EQ(arrivals_.streams(), kCalls);
  ASSERT_GE(arrivals_.streams_after_rounds().size(), 2U);
  EXPECT_LT(arrivals_.streams_after_rounds().front(), kCalls / 2);
}

TEST_F(SessionReads, ALongMessageIsReadInFewRounds) {
  constexpr size_t kBytes = 1 << 20;
  OnLoop([this] {
    const int32_t stream = Request();
    client_->Write(stream, std::string(kBytes, 'x'));
    client_->End(stream);
  });
  WaitFor([this] { return arrivals_.bytes() == kBytes && arrivals_.is_noted(); });
  // Rounds of 512 bytes each would be 2048. How many there are depends on the socket's buffer.
  EXPECT_LT(arrivals_.streams_after_rounds().size(), 100U);
}

}  // namespace
}  // namespace alignd::proxy
