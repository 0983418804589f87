// Answers that no library would send: frames of HTTP/2, byte by byte.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <chrono>
#include <string>
#include <thread>

#include "edge/fake_tree.h"
#include "edge/unix_socket.h"
#include "host/descriptor.h"
#include "runtime/v1/cri.pb.h"
#include "service/client.h"

namespace alignd::service {
namespace {

constexpr char kSettings = 4;
constexpr char kHeaders = 1;
constexpr char kData = 0;
constexpr char kReset = 3;
constexpr char kGoAway = 7;
constexpr char kEndHeaders = 4;
constexpr char kEndStream = 1;

// Source: RFC 9113, section 4.1.
std::string Frame(char type, char flags, char stream, const std::string& payload) {
  std::string frame(9, '\0');
  frame[1] = static_cast<char>(payload.size() >> 8);
  frame[2] = static_cast<char>(payload.size());
  frame[3] = type;
  frame[4] = flags;
  frame[8] = stream;
  return frame + payload;
}
const std::string kOk = Frame(kHeaders, kEndHeaders, 1, "\x88");  // :status 200, RFC 7541

// A code of HTTP/2 with four bytes.
std::string Code(char code) { return std::string(3, '\0') + code; }

// Serves one connection: answers its first stream with these frames, and keeps it open.
class FramesPeer {
 public:
  FramesPeer(const std::string& path, std::string frames)
      : listening_(testing::ListenUnix(path)), thread_([this, frames] { Serve(frames); }) {}
  ~FramesPeer() {
    shutdown(listening_.fd(), SHUT_RDWR);
    thread_.join();
  }

 private:
  void Serve(const std::string& frames) {
    const host::Descriptor peer(accept4(listening_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd() < 0) return;
    Send(peer, Frame(kSettings, 0, 0, ""));
    std::string seen;
    char buffer[4096];
    // The request ends with the flag of its last DATA frame.
    while (!HasRequest(seen)) {
      const ssize_t count = recv(peer.fd(), buffer, sizeof buffer, 0);
      if (count <= 0) return;
      seen.append(buffer, static_cast<size_t>(count));
    }
    Send(peer, frames);
    while (recv(peer.fd(), buffer, sizeof buffer, 0) > 0) continue;
  }
  static bool HasRequest(const std::string& seen) {
    constexpr size_t kPreface = 24;
    for (size_t at = kPreface; at + 9 <= seen.size();) {
      const auto byte = [&](size_t i) { return static_cast<unsigned char>(seen[at + i]); };
      const size_t length = size_t{byte(0)} << 16 | size_t{byte(1)} << 8 | byte(2);
      if (seen[at + 3] == kData && (seen[at + 4] & kEndStream) != 0) return true;
      at += 9 + length;
    }
    return false;
  }
  static void Send(const host::Descriptor& peer, const std::string& bytes) {
    EXPECT_EQ(send(peer.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes.size()));
  }

  const host::Descriptor listening_;
  std::thread thread_;
};

grpc::Status AnswerOf(const std::string& frames) {
  const testing::FakeTree tree;
  const std::string path = (tree.root() / "peer.sock").string();
  const FramesPeer peer(path, frames);
  const auto client = *Client::Dial(path, CallThread::kPlugins);
  ClientCall call({.timeout = std::chrono::seconds(20)});
  runtime::v1::VersionResponse response;
  return client->CallAndWait(call, "/s.S/Echo", runtime::v1::VersionRequest(), response);
}

// UNIMPLEMENTED would say that the peer does not have the method.
TEST(ClientOfAHostilePeer, ACompressedAnswerIsNoMissingMethod) {
  const grpc::Status status =
      AnswerOf(kOk + Frame(kData, kEndStream, 1, std::string("\1\0\0\0\1x", 6)));
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INTERNAL) << status.error_message();
  EXPECT_NE(status.error_message().find("compressed"), std::string::npos);
}

TEST(ClientOfAHostilePeer, EndsOfTheStreamHaveTheCodesOfGrpc) {
  using grpc::StatusCode;
  const std::pair<std::string, StatusCode> answers[] = {
      {Frame(kReset, 0, 1, Code(0)), StatusCode::UNAVAILABLE},
      {Frame(kReset, 0, 1, Code(7)), StatusCode::UNAVAILABLE},
      {Frame(kReset, 0, 1, Code(8)), StatusCode::CANCELLED},
      {Frame(kReset, 0, 1, Code(11)), StatusCode::RESOURCE_EXHAUSTED},
      {Frame(kReset, 0, 1, Code(2)), StatusCode::INTERNAL},
      // No stream of the call is left.
      {Frame(kGoAway, 0, 0, std::string(8, '\0')), StatusCode::UNAVAILABLE},
      // No status follows.
      {kOk + Frame(kData, kEndStream, 1, ""), StatusCode::UNKNOWN},
      {Frame(kHeaders, kEndHeaders | kEndStream, 1, "\x88"), StatusCode::UNKNOWN},
      // :status 404.
      {Frame(kHeaders, kEndHeaders, 1, "\x8d"), StatusCode::UNKNOWN},
      // An announced message of 4 GiB.
      {kOk + Frame(kData, 0, 1, std::string("\0\xff\xff\xff\xff", 5)),
       StatusCode::RESOURCE_EXHAUSTED},
      // Half a message.
      {kOk + Frame(kData, kEndStream, 1, std::string("\0\0\0\0\5x", 6)), StatusCode::UNKNOWN}};
  for (const auto& [frames, code] : answers) {
    const grpc::Status status = AnswerOf(frames);
    EXPECT_EQ(status.error_code(), code)
        << ::testing::PrintToString(frames) << ": " << status.error_message();
  }
}

}  // namespace
}  // namespace alignd::service
