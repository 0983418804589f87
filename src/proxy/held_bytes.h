// The memory that callers can make the forwarder use.
#pragma once

#include <cstddef>
#include <functional>

namespace alignd::proxy {

// The bytes that all calls together hold: headers, parts of requests, requests that wait for a
// decision or for the runtime, answers that the caller does not read. Flow control limits them for
// each call, but not the number of calls. What a handler keeps after its call has ended is not
// counted. Used on the loop's thread.
struct HeldBytes {
  size_t total = 0;
  size_t limit = 0;
  std::function<void()> exceeded = nullptr;  // `total` is above `limit`; must not end calls itself
};

}  // namespace alignd::proxy
