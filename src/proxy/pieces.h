// Bytes that wait to be passed on, in the pieces in which they came: a long message goes through
// the proxy in the buffers that it was read into.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "proxy/read_buffers.h"

namespace alignd::proxy {

class Pieces {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // Copies. Short ones share a piece.
  void Append(std::string_view bytes);
  // Copies those that are not worth that a whole buffer is kept for them.
  void Append(const SharedBytes& shared);
  // Takes the first `bytes` of `from`, which has as many. What is a piece there stays one.
  void AppendFrom(Pieces& from, size_t bytes);

  // So many bytes are in one piece at the front.
  size_t FirstSize() const;

  enum class Sent {
    kAll,
    kSome,    // the socket takes no more at the moment
    kBroken,  // it never will
  };
  // Removes what the socket took.
  Sent SendTo(int socket);

 private:
  struct Piece {
    std::string own;
    SharedBytes shared{};  // without a buffer: the piece is our own

    std::string_view bytes() const { return shared.buffer ? shared.bytes : std::string_view(own); }
  };

  void Drop(size_t bytes);
  void DropFirst();

  std::vector<Piece> pieces_;  // none is empty, but for those before the first
  size_t first_ = 0;
  size_t first_begin_ = 0;  // what is left of the first piece begins here
  size_t size_ = 0;
};

}  // namespace alignd::proxy
