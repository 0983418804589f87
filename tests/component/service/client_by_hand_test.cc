// Connections of the client whose other end the test writes by hand, step by step.
#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "edge/fake_tree.h"
#include "edge/frames_peer.h"
#include "edge/hand_written.h"
#include "edge/sanitized.h"
#include "edge/unix_socket.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"

namespace alignd::service::by_hand {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::frames::Header;

constexpr seconds kPatience{20};

std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
  return testing::HandWritten::Frame(type, flags, stream, payload);
}
std::string Number(uint32_t number) {
  std::string bytes;
  for (const int shift : {24, 16, 8, 0}) bytes += static_cast<char>(number >> shift & 0xff);
  return bytes;
}
std::string Settings(const std::string& entries = "") {
  return Frame(NGHTTP2_SETTINGS, 0, 0, entries);
}
std::string Setting(char id, uint32_t value) { return std::string{'\0', id} + Number(value); }
std::string GoAway(uint32_t last, uint32_t code, const std::string& text = "") {
  return Frame(NGHTTP2_GOAWAY, 0, 0, Number(last) + Number(code) + text);
}
std::string ResetOf(uint32_t stream, uint32_t code) {
  return Frame(NGHTTP2_RST_STREAM, 0, stream, Number(code));
}
// :status 200
std::string Begin(uint32_t stream) {
  return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream, "\x88");
}
std::string Trailers(uint32_t stream, const std::string& status) {
  return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS | NGHTTP2_FLAG_END_STREAM, stream,
               Header("grpc-status", status));
}
// An empty message with OK.
std::string Whole(uint32_t stream) {
  return Begin(stream) + Frame(NGHTTP2_DATA, 0, stream, std::string(5, '\0')) +
         Trailers(stream, "0");
}

// The client's connection, seen from the peer.
class Connection {
 public:
  explicit Connection(const host::Descriptor& listening)
      : socket_(accept4(listening.fd(), nullptr, nullptr, SOCK_CLOEXEC)) {
    EXPECT_GE(socket_.fd(), 0);
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }

  // Whether the client still reads.
  bool Send(const std::string& bytes) const {
    return send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
  }

  // Reads up to a frame of this type and stream that has all these flags.
  bool Await(uint8_t type, uint8_t flags, uint32_t stream) {
    if (!std::exchange(began_, true) && !Read(24)) return false;
    while (Read(9)) {
      const std::string head = bytes_;
      const auto at = [&](size_t i) { return uint32_t{static_cast<unsigned char>(head[i])}; };
      if (!Read(at(0) << 16 | at(1) << 8 | at(2))) return false;
      const uint32_t of = at(5) << 24 | at(6) << 16 | at(7) << 8 | at(8);
      if (at(3) == type && (at(4) & flags) == flags && of == stream) return true;
    }
    return false;
  }
  bool AwaitRequest(uint32_t stream) {
    return Await(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream);
  }

 private:
  bool Read(size_t size) {
    bytes_.resize(size);
    return size == 0 ||
           recv(socket_.fd(), bytes_.data(), size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  const host::Descriptor socket_;
  bool began_ = false;
  std::string bytes_;
};

class ClientByHand : public ::testing::Test {
 protected:
  struct Pending {
    explicit Pending(ClientCall::Options options) : call(options) {}

    ClientCall call;
    runtime::v1::VersionResponse response;
    std::promise<grpc::Status> promise;
    std::future<grpc::Status> ended = promise.get_future();

    grpc::Status Status() {
      if (ended.wait_for(kPatience) != std::future_status::ready) {
        return {grpc::StatusCode::DO_NOT_USE, "has not ended"};
      }
      return ended.get();
    }
    bool HasEnded() { return ended.wait_for(milliseconds(50)) == std::future_status::ready; }
  };

  std::shared_ptr<Pending> Call(const std::string& text = "",
                                ClientCall::Options options = {.timeout = kPatience}) {
    const auto pending = std::make_shared<Pending>(options);
    runtime::v1::VersionRequest request;
    request.set_version(text);
    client_->StartUnary(
        pending->call, "/s.S/M", request, pending->response,
        [pending](const grpc::Status& status) { pending->promise.set_value(status); });
    return pending;
  }
  // A client that does not connect fails its test, and does not let it wait for ever.
  void SetUp() override {
    const timeval patience{.tv_sec = kPatience.count(), .tv_usec = 0};
    ASSERT_EQ(setsockopt(listening_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience), 0);
  }
  std::string Path() const { return (tree_.root() / "peer.sock").string(); }

  const testing::FakeTree tree_;
  const host::Descriptor listening_ = testing::ListenUnix(Path());
  const std::shared_ptr<Client> client_ = *Client::Dial(Path(), CallThread::kPlugins);
};

TEST_F(ClientByHand, CallsBeforeAGoAwayGoOnAndLaterOnesTakeAnotherConnection) {
  const auto first = Call();
  Connection old(listening_);
  ASSERT_TRUE(old.Send(Settings()));
  ASSERT_TRUE(old.AwaitRequest(1));
  const auto refused = Call();
  ASSERT_TRUE(old.AwaitRequest(3));
  ASSERT_TRUE(old.Send(GoAway((uint32_t{1} << 31) - 1, NGHTTP2_NO_ERROR)));
  ASSERT_TRUE(old.Send(Frame(NGHTTP2_PING, 0, 0, std::string(8, 'p'))));
  ASSERT_TRUE(old.Await(NGHTTP2_PING, NGHTTP2_FLAG_ACK, 0));
  const auto later = Call();
  Connection next(listening_);
  ASSERT_TRUE(next.Send(Settings()));
  ASSERT_TRUE(next.AwaitRequest(1));
  ASSERT_TRUE(next.Send(Whole(1)));
  EXPECT_TRUE(later->Status().ok());
  EXPECT_FALSE(first->HasEnded());
  EXPECT_FALSE(refused->HasEnded());
  ASSERT_TRUE(old.Send(GoAway(1, NGHTTP2_NO_ERROR)));
  EXPECT_EQ(refused->Status().error_code(), grpc::StatusCode::UNAVAILABLE);
  ASSERT_TRUE(old.Send(Whole(1)));
  EXPECT_TRUE(first->Status().ok());
}

TEST_F(ClientByHand, SaysWhyTheConnectionHasEnded) {
  const auto closed = Call();
  { const Connection connection(listening_); }
  // The client may have written what the peer has not read.
  const std::string end = closed->Status().error_message();
  EXPECT_TRUE(end == Path() + ": connection closed" || end == Path() + ": Connection reset by peer")
      << end;

  // docker.sock: alignd's options may name a socket of another kind.
  const auto http1 = Call();
  Connection other(listening_);
  ASSERT_TRUE(other.Send("HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n"));
  const grpc::Status status = http1->Status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_TRUE(status.error_message().starts_with(
      Path() + ": the peer does not speak HTTP/2, and so not gRPC: PROTOCOL_ERROR"))
      << status.error_message();

  const auto with_text = Call();
  {
    Connection connection(listening_);
    ASSERT_TRUE(connection.Send(Settings()));
    ASSERT_TRUE(connection.AwaitRequest(1));
    ASSERT_TRUE(connection.Send(GoAway(1, NGHTTP2_ENHANCE_YOUR_CALM, "too\nmany")));
  }
  EXPECT_EQ(with_text->Status().error_message(),
            "the connection has ended: the peer reports ENHANCE_YOUR_CALM: too\\nmany");
}

// Several shorter headers end the call alone.
TEST_F(ClientByHand, OneHeaderThatIsTooLongIsSaidToBe) {
  const auto call = Call();
  Connection connection(listening_);
  ASSERT_TRUE(connection.Send(Settings()));
  ASSERT_TRUE(connection.AwaitRequest(1));
  // The length 75,000 as an integer with a prefix of 7 bits, RFC 7541, section 5.1.
  const std::string block = std::string("\0\1x\x7f\xf9\xc8\x04", 7) + std::string(75'000, 'e');
  std::string frames = Begin(1);
  for (size_t at = 0; at < block.size(); at += 15'000) {
    frames += Frame(at == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                    at == 0 ? NGHTTP2_FLAG_END_STREAM : 0, 1, block.substr(at, 15'000));
  }
  frames += Frame(NGHTTP2_CONTINUATION, NGHTTP2_FLAG_END_HEADERS, 1, "");
  connection.Send(frames);  // the client need not read all of it
  const grpc::Status status = call->Status();
  EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(status.error_message(),
            "the connection has ended: HTTP/2: COMPRESSION_ERROR; one header of the peer may "
            "exceed the 64 KiB of headers that alignd reads: see its log");
}

TEST_F(ClientByHand, KeepsThePeersLimitOfCallsAndCancelsOneThatWaits) {
  const auto first = Call();
  Connection connection(listening_);
  ASSERT_TRUE(connection.Send(Settings(Setting(NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, 1))));
  ASSERT_TRUE(connection.AwaitRequest(1));
  const auto waits = Call();
  const auto last = Call();
  EXPECT_FALSE(waits->HasEnded());
  waits->call.Cancel();
  EXPECT_EQ(waits->Status().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(connection.Send(Whole(1)));
  EXPECT_TRUE(first->Status().ok());
  ASSERT_TRUE(connection.AwaitRequest(5));
  ASSERT_TRUE(connection.Send(Whole(5)));
  EXPECT_TRUE(last->Status().ok());
}

TEST_F(ClientByHand, SkipsInterimHeaders) {
  const auto call = Call();
  Connection connection(listening_);
  ASSERT_TRUE(connection.Send(Settings()));
  ASSERT_TRUE(connection.AwaitRequest(1));
  // :status 103
  ASSERT_TRUE(connection.Send(
      Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, 1, std::string("\x08\x03") + "103")));
  ASSERT_TRUE(connection.Send(Whole(1)));
  EXPECT_TRUE(call->Status().ok());
}

TEST_F(ClientByHand, TakesAnAnswerBeforeTheRequestIsSent) {
  const auto refused = Call(std::string(1000, 'x'));
  Connection connection(listening_);
  ASSERT_TRUE(connection.Send(Settings(Setting(NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, 10))));
  ASSERT_TRUE(connection.Await(NGHTTP2_DATA, 0, 1));
  ASSERT_TRUE(connection.Send(Begin(1) + Trailers(1, "5")));
  EXPECT_EQ(refused->Status().error_code(), grpc::StatusCode::NOT_FOUND);
  EXPECT_TRUE(connection.Await(NGHTTP2_RST_STREAM, 0, 1));
  const auto good = Call(std::string(1000, 'x'));
  ASSERT_TRUE(connection.Await(NGHTTP2_DATA, 0, 3));
  ASSERT_TRUE(connection.Send(Whole(3)));
  EXPECT_TRUE(good->Status().ok());
  EXPECT_TRUE(connection.Await(NGHTTP2_RST_STREAM, 0, 3));
}

// Peers in Go reset a call whose grpc-timeout has passed. On a busy machine that may be read before
// alignd's own timer has run.
TEST_F(ClientByHand, ResetAtTheDeadlineIsTheDeadlinesEnd) {
  std::optional<Connection> connection;
  for (const bool is_late : {false, true}) {
    // Long enough that the reset is sent and the thread is busy before alignd's timer is due.
    const milliseconds soon = testing::kSanitized ? milliseconds(2'000) : milliseconds(1'000);
    const milliseconds timeout = is_late ? soon : milliseconds(kPatience);
    const auto began = std::chrono::steady_clock::now();
    const auto call = Call("", {.timeout = timeout});
    if (!connection) {
      connection.emplace(listening_);
      ASSERT_TRUE(connection->Send(Settings()));
    }
    const uint32_t stream = is_late ? 3 : 1;
    ASSERT_TRUE(connection->AwaitRequest(stream));
    struct Steps {
      std::promise<void> busy;
      std::promise<void> free;
    };
    const auto steps = std::make_shared<Steps>();  // the task may outlive this round
    client_->After({}, [steps] {
      steps->busy.set_value();
      steps->free.get_future().wait();
    });
    steps->busy.get_future().wait();
    if (is_late && call->HasEnded()) {
      steps->free.set_value();
      GTEST_SKIP() << "the machine stopped for longer than the timeout";
    }
    EXPECT_TRUE(connection->Send(ResetOf(stream, NGHTTP2_CANCEL)));
    if (is_late) std::this_thread::sleep_until(began + 2 * timeout);
    steps->free.set_value();
    EXPECT_EQ(call->Status().error_code(),
              is_late ? grpc::StatusCode::DEADLINE_EXCEEDED : grpc::StatusCode::CANCELLED);
  }
}

// Each is refused with a frame that waits for a peer that does not read.
TEST_F(ClientByHand, PeerThatMakesItAnswerAndDoesNotReadLosesTheConnection) {
  const auto call = Call();
  Connection connection(listening_);
  ASSERT_TRUE(connection.Send(Settings()));
  ASSERT_TRUE(connection.AwaitRequest(1));
  ASSERT_TRUE(connection.Send(Begin(1)));
  constexpr uint32_t kFrames = 500'000;
  uint32_t sent = 0;
  while (sent < kFrames && connection.Send(Frame(NGHTTP2_PUSH_PROMISE, NGHTTP2_FLAG_END_HEADERS, 1,
                                                 Number(2 * sent + 2)))) {
    ++sent;
  }
  EXPECT_LT(sent, kFrames);
  EXPECT_EQ(call->Status().error_message(),
            "the connection has ended: the peer does not read what it makes this side send");
}

TEST_F(ClientByHand, LimitOfTheCallIsThatOfItsMessage) {
  std::optional<Connection> connection;
  for (const size_t size : {size_t{100}, size_t{101}}) {
    const auto call = Call("", {.timeout = kPatience, .max_message_bytes = 100});
    if (!connection) {
      connection.emplace(listening_);
      ASSERT_TRUE(connection->Send(Settings()));
    }
    const uint32_t stream = size == 100 ? 1 : 3;
    ASSERT_TRUE(connection->AwaitRequest(stream));
    runtime::v1::VersionResponse answer;
    answer.set_version(std::string(size - 2, 'v'));
    const std::string bytes = answer.SerializeAsString();
    ASSERT_EQ(bytes.size(), size);
    ASSERT_TRUE(
        connection->Send(Begin(stream) +
                         Frame(NGHTTP2_DATA, 0, stream,
                               std::string(1, '\0') + Number(static_cast<uint32_t>(size)) + bytes) +
                         Trailers(stream, "0")));
    EXPECT_EQ(call->Status().error_code(),
              size == 100 ? grpc::StatusCode::OK : grpc::StatusCode::RESOURCE_EXHAUSTED);
  }
}

}  // namespace
}  // namespace alignd::service::by_hand
