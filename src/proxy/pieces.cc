#include "proxy/pieces.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

namespace alignd::proxy {
namespace {

// A new piece costs as much as copying some hundred bytes.
constexpr size_t kShort = 1024;
// The maximum size of a piece that short appends share; most frames have this size.
constexpr size_t kSharedPiece = 16 << 10;
// A buffer is kept for bytes that fill at least an eighth of it, as a full frame does.
constexpr size_t kWorthABuffer = ReadBuffers::kSize / 8;
constexpr size_t kMaxPiecesPerSend = 128;
// Removed pieces are erased from the list when they are so many, and half of the list.
constexpr size_t kManyDropped = 64;

}  // namespace

void Pieces::Append(std::string_view bytes) {
  if (bytes.empty()) return;
  size_ += bytes.size();
  const bool joins = bytes.size() <= kShort && first_ < pieces_.size() &&
                     !pieces_.back().shared.buffer &&
                     pieces_.back().own.size() + bytes.size() <= kSharedPiece;
  if (joins) {
    pieces_.back().own.append(bytes);
  } else {
    pieces_.push_back({.own = std::string(bytes)});
  }
}

void Pieces::AppendOwned(std::string bytes) {
  if (bytes.size() <= kShort) return Append(bytes);
  size_ += bytes.size();
  pieces_.push_back({.own = std::move(bytes)});
}

void Pieces::Append(const SharedBytes& shared) {
  if (shared.bytes.size() < kWorthABuffer) {
    Append(shared.bytes);
    return;
  }
  size_ += shared.bytes.size();
  pieces_.push_back({.own = {}, .shared = shared});
}

void Pieces::AppendFrom(Pieces& from, size_t bytes) {
  while (bytes > 0) {
    const size_t first = from.FirstSize();
    if (bytes >= first && from.first_begin_ == 0 && first > kShort) {
      size_ += first;
      from.size_ -= first;
      pieces_.push_back(std::move(from.pieces_[from.first_]));
      from.DropFirst();
      bytes -= first;
    } else {
      const size_t part = std::min(bytes, first);
      const Piece& piece = from.pieces_[from.first_];
      const std::string_view taken = piece.bytes().substr(from.first_begin_, part);
      if (piece.shared.buffer) {
        Append(SharedBytes{piece.shared.buffer, taken});
      } else {
        Append(taken);
      }
      from.Drop(part);
      bytes -= part;
    }
  }
}

size_t Pieces::FirstSize() const {
  return empty() ? 0 : pieces_[first_].bytes().size() - first_begin_;
}

void Pieces::Drop(size_t bytes) {
  while (bytes > 0) {
    const size_t part = std::min(bytes, FirstSize());
    bytes -= part;
    size_ -= part;
    first_begin_ += part;
    if (first_begin_ == pieces_[first_].bytes().size()) DropFirst();
  }
}

void Pieces::DropFirst() {
  first_begin_ = 0;
  pieces_[first_++] = {};
  const bool is_last = first_ == pieces_.size();
  if (is_last || (first_ >= kManyDropped && first_ >= pieces_.size() / 2)) {
    pieces_.erase(pieces_.begin(), pieces_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }
}

Pieces::Sent Pieces::SendTo(int socket) {
  while (!empty()) {
    std::array<iovec, kMaxPiecesPerSend> parts;
    size_t count = 0;
    size_t begin = first_begin_;
    for (size_t i = first_; i < pieces_.size() && count < parts.size(); ++i) {
      const std::string_view bytes = pieces_[i].bytes().substr(std::exchange(begin, 0));
      parts[count++] = {const_cast<char*>(bytes.data()), bytes.size()};  // sendmsg only reads
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

}  // namespace alignd::proxy
