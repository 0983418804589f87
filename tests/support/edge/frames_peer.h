// A server that answers with frames of HTTP/2 that no library would send, byte by byte.
#pragma once

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <cstddef>
#include <string>
#include <thread>

#include "edge/unix_socket.h"
#include "host/descriptor.h"

namespace alignd::testing::frames {

inline constexpr char kSettings = 4;
inline constexpr char kHeaders = 1;
inline constexpr char kData = 0;
inline constexpr char kReset = 3;
inline constexpr char kGoAway = 7;
inline constexpr char kContinuation = 9;
inline constexpr char kEndHeaders = 4;
inline constexpr char kEndStream = 1;

// Source: RFC 9113, section 4.1.
inline std::string Frame(char type, char flags, char stream, const std::string& payload) {
  std::string frame(9, '\0');
  frame[1] = static_cast<char>(payload.size() >> 8);
  frame[2] = static_cast<char>(payload.size());
  frame[3] = type;
  frame[4] = flags;
  frame[8] = stream;
  return frame + payload;
}
inline const std::string kOk = Frame(kHeaders, kEndHeaders, 1, "\x88");  // :status 200, RFC 7541

// A header without indexing, RFC 7541, section 6.2.2. The name and the value have at most 126
// bytes.
inline std::string Header(const std::string& name, const std::string& value) {
  return std::string(1, '\0') + static_cast<char>(name.size()) + name +
         static_cast<char>(value.size()) + value;
}

// Trailers with a status and a text of this size, in headers of 15,000 bytes.
inline std::string LongTrailers(size_t size) {
  std::string frames = Frame(kHeaders, kEndStream, 1, Header("grpc-status", "9"));
  for (size_t sent = 0; sent < size; sent += 15'000) {
    // The length as an integer with a prefix of 7 bits, RFC 7541, section 5.1.
    frames +=
        Frame(kContinuation, 0, 1, std::string("\0\1x\x7f\x99\x74", 6) + std::string(15'000, 'e'));
  }
  return frames + Frame(kContinuation, kEndHeaders, 1, "");
}

// A code of HTTP/2 with four bytes.
inline std::string Code(char code) { return std::string(3, '\0') + code; }

// Serves one connection: answers its first stream with these frames, and keeps it open.
class FramesPeer {
 public:
  FramesPeer(const std::string& path, std::string frames)
      : listening_(ListenUnix(path)), thread_([this, frames] { Serve(frames); }) {}
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

}  // namespace alignd::testing::frames
