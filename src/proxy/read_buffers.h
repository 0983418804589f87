// What is read from sockets, in buffers that live as long as somebody has bytes of theirs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace alignd::proxy {

using SharedBuffer = std::shared_ptr<uint8_t[]>;

// Bytes of such a buffer. A value.
struct SharedBytes {
  SharedBuffer buffer;
  std::string_view bytes;  // in it
};

// Used on one thread.
class ReadBuffers {
 public:
  // Large enough for few reads, small enough to be in the cache still when it is written.
  static constexpr size_t kSize = 128 << 10;

  // One that nobody has bytes of: an old one, if there is one, for fresh memory costs more than to
  // read into it.
  SharedBuffer Take() {
    for (const SharedBuffer& buffer : kept_) {
      if (buffer.use_count() == 1) return buffer;
    }
    // Not filled with zeros.
    SharedBuffer buffer(new uint8_t[kSize]);  // NOLINT(modernize-make-shared)
    if (kept_.size() < kMaxKept) kept_.push_back(buffer);
    return buffer;
  }

 private:
  static constexpr size_t kMaxKept = 16;

  std::vector<SharedBuffer> kept_;
};

}  // namespace alignd::proxy
