// Buffers for bytes that are read from sockets. A buffer lives as long as bytes of it are in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace alignd::proxy {

using SharedBuffer = std::shared_ptr<uint8_t[]>;

// Some bytes of a buffer. A value.
struct SharedBytes {
  SharedBuffer buffer;
  std::string_view bytes;  // in the buffer
};

// Used on one thread.
class ReadBuffers {
 public:
  // Large, so that there are few reads; small enough to be still in the CPU's cache when it is
  // sent.
  static constexpr size_t kSize = 128 << 10;

  // A buffer of which no bytes are in use. An old one if possible: new memory costs more than
  // reading into it.
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
