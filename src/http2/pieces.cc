#include "http2/pieces.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace alignd::http2 {
namespace {

// To begin a piece costs as much as to copy some hundred bytes.
constexpr size_t kShort = 1024;
// Short ones share a piece up to this size, which is that of most frames.
constexpr size_t kSharedPiece = 16 << 10;
constexpr size_t kMostPiecesPerSend = 128;

}  // namespace

void Pieces::Append(std::string_view bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  if (bytes.size() <= kShort && !pieces_.empty() &&
      pieces_.back().size() + bytes.size() <= kSharedPiece) {
    pieces_.back().append(bytes);
  } else {
    pieces_.emplace_back(bytes);
  }
}

void Pieces::AppendFrom(Pieces& from, size_t bytes) {
  while (bytes > 0) {
    const size_t first = from.FirstSize();
    if (bytes >= first && from.first_begin_ == 0 && first > kShort) {
      size_ += first;
      from.size_ -= first;
      pieces_.push_back(std::move(from.pieces_.front()));
      from.pieces_.pop_front();
      bytes -= first;
    } else {
      const size_t part = std::min(bytes, first);
      Append(std::string_view(from.pieces_.front()).substr(from.first_begin_, part));
      from.Drop(part);
      bytes -= part;
    }
  }
}

size_t Pieces::FirstSize() const {
  return pieces_.empty() ? 0 : pieces_.front().size() - first_begin_;
}

void Pieces::Drop(size_t bytes) {
  size_ -= bytes;
  while (bytes > 0 && bytes >= FirstSize()) {
    bytes -= FirstSize();
    pieces_.pop_front();
    first_begin_ = 0;
  }
  first_begin_ += bytes;
}

Pieces::Sent Pieces::SendTo(int socket) {
  while (!empty()) {
    std::array<iovec, kMostPiecesPerSend> parts;
    size_t count = 0;
    size_t begin = first_begin_;
    for (std::string& piece : pieces_) {
      if (count == parts.size()) break;
      parts[count++] = {piece.data() + begin, piece.size() - begin};
      begin = 0;
    }
    msghdr message{};
    message.msg_iov = parts.data();
    message.msg_iovlen = count;
    const ssize_t size = sendmsg(socket, &message, MSG_NOSIGNAL);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return errno == EAGAIN ? Sent::kSome : Sent::kBroken;
    Drop(static_cast<size_t>(size));
  }
  return Sent::kAll;
}

}  // namespace alignd::http2
