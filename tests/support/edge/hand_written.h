// A caller that writes HTTP/2 by hand, and keeps no limit of its peer.
#pragma once

#include <gtest/gtest.h>
#include <nghttp2/nghttp2.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "edge/unix_socket.h"
#include "host/descriptor.h"

namespace alignd::testing {

// A connection whose other end writes HTTP/2 by hand.
class HandWritten {
 public:
  explicit HandWritten(const std::string& path) : socket_(ConnectUnix(path)) {
    EXPECT_GE(socket_.fd(), 0) << path;
    const timeval patience{.tv_sec = 60, .tv_usec = 0};
    setsockopt(socket_.fd(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    nghttp2_hd_deflate_new(&deflater_, 0);  // without a dynamic table: the same bytes each time
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    Send(Frame(NGHTTP2_SETTINGS, 0, 0, ""));
  }
  HandWritten(const HandWritten&) = delete;
  HandWritten& operator=(const HandWritten&) = delete;
  ~HandWritten() { nghttp2_hd_deflate_del(deflater_); }

  static std::string Frame(uint8_t type, uint8_t flags, uint32_t stream, std::string_view payload) {
    std::string frame;
    for (const int shift : {16, 8, 0}) frame += static_cast<char>(payload.size() >> shift & 0xff);
    frame += {static_cast<char>(type), static_cast<char>(flags)};
    for (const int shift : {24, 16, 8, 0}) frame += static_cast<char>(stream >> shift & 0xff);
    return frame.append(payload);
  }

  // Begins a call, with its whole message.
  std::string CallFrames(uint32_t stream, const std::string& method) {
    const std::vector<std::pair<std::string, std::string>> headers = {
        {":method", "POST"},         {":scheme", "http"}, {":path", method},
        {":authority", "localhost"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
    std::vector<nghttp2_nv> list;
    for (const auto& [name, value] : headers) {
      list.push_back({reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                      reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())), name.size(),
                      value.size(), NGHTTP2_NV_FLAG_NONE});
    }
    std::array<uint8_t, 1024> block;
    const ssize_t size =
        nghttp2_hd_deflate_hd(deflater_, block.data(), block.size(), list.data(), list.size());
    EXPECT_GT(size, 0);
    return Frame(NGHTTP2_HEADERS, NGHTTP2_FLAG_END_HEADERS, stream,
                 {reinterpret_cast<char*>(block.data()), static_cast<size_t>(size)}) +
           Frame(NGHTTP2_DATA, NGHTTP2_FLAG_END_STREAM, stream, std::string(5, '\0'));
  }

  // Begins a call with a header list of so many fields of 1,000 bytes, which takes several frames.
  std::string LongHeaderFrames(uint32_t stream, size_t fields) {
    const std::string name = "padding";
    const std::string value(1000, '~');  // of the longest Huffman code: sent as it is
    const nghttp2_nv field = {reinterpret_cast<uint8_t*>(const_cast<char*>(name.data())),
                              reinterpret_cast<uint8_t*>(const_cast<char*>(value.data())),
                              name.size(), value.size(), NGHTTP2_NV_FLAG_NO_INDEX};
    std::vector<nghttp2_nv> list(fields, field);
    std::string block(2 * fields * value.size(), '\0');
    const ssize_t size = nghttp2_hd_deflate_hd(deflater_, reinterpret_cast<uint8_t*>(block.data()),
                                               block.size(), list.data(), list.size());
    EXPECT_GT(size, 0);
    block.resize(static_cast<size_t>(size));
    constexpr size_t kFrame = 16 << 10;
    std::string frames;
    for (size_t begin = 0; begin < block.size(); begin += kFrame) {
      const bool last = begin + kFrame >= block.size();
      frames += Frame(begin == 0 ? NGHTTP2_HEADERS : NGHTTP2_CONTINUATION,
                      last ? NGHTTP2_FLAG_END_HEADERS : 0, stream,
                      std::string_view(block).substr(begin, kFrame));
    }
    return frames;
  }

  // All of it; EPIPE if the server has closed the connection.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }

  // The type of the next frame, waited for; nullopt at the end of the connection, and after 60 s.
  std::optional<uint8_t> NextFrame() {
    std::string header;
    if (!Read(header, 9)) return std::nullopt;
    const auto at = [&](size_t i) { return size_t{static_cast<unsigned char>(header[i])}; };
    std::string payload;
    if (!Read(payload, at(0) << 16 | at(1) << 8 | at(2))) return std::nullopt;
    return static_cast<uint8_t>(header[3]);
  }

  bool IsClosed() {
    while (NextFrame()) {
    }
    return true;
  }

 private:
  bool Read(std::string& into, size_t size) {
    into.resize(size);
    for (size_t done = 0; done < size;) {
      const ssize_t got = read(socket_.fd(), into.data() + done, size - done);
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    return true;
  }

  const host::Descriptor socket_;
  nghttp2_hd_deflater* deflater_ = nullptr;
};

}  // namespace alignd::testing
