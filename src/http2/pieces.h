// Bytes that wait to be passed on, in the pieces in which they came: a long message goes through
// the proxy without being copied from buffer to buffer.
#pragma once

#include <cstddef>
#include <deque>
#include <string>
#include <string_view>

namespace alignd::http2 {

class Pieces {
 public:
  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }

  // Copies. Short ones share a piece.
  void Append(std::string_view bytes);
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
  void Drop(size_t bytes);

  std::deque<std::string> pieces_;  // none is empty
  size_t first_begin_ = 0;          // what is left of the first piece begins here
  size_t size_ = 0;
};

}  // namespace alignd::http2
