// Bytes that wait to be sent, in the pieces in which they arrived: a long message passes the proxy
// in the buffers into which it was read.
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
  // Copies short bytes and keeps long ones.
  void AppendOwned(std::string bytes);
  // Copies bytes that are too few to keep a whole buffer for them.
  void Append(const SharedBytes& shared);
  // Moves the first `bytes` of `from`, which has at least as many. A whole piece is not copied.
  void AppendFrom(Pieces& from, size_t bytes);

  // The size of the first piece.
  size_t FirstSize() const;

  enum class Sent {
    kAll,
    kSome,    // the socket accepts no more now
    kBroken,  // the socket never accepts more
  };
  // Removes the bytes that the socket accepted.
  Sent SendTo(int socket);

 private:
  struct Piece {
    std::string own;
    SharedBytes shared{};  // without a buffer: the bytes are in `own`

    std::string_view bytes() const { return shared.buffer ? shared.bytes : std::string_view(own); }
  };

  void Drop(size_t bytes);
  void DropFirst();

  std::vector<Piece> pieces_;  // from index first_ on, none is empty
  size_t first_ = 0;
  size_t first_begin_ = 0;  // the bytes of the first piece before this have been removed
  size_t size_ = 0;
};

}  // namespace alignd::proxy
