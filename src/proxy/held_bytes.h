// The memory that callers can make the forwarder use.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>

namespace alignd::proxy {

// About what a call takes without its headers and messages, and about what a handler keeps for a
// call besides its request.
inline constexpr size_t kCallBytes = 2048;

// The bytes that all calls together hold: headers, parts of requests, requests that wait for a
// decision or for the runtime, answers that the caller does not read. Flow control limits them for
// each call, but not the number of calls. Used on the loop's thread.
struct HeldBytes {
  size_t total = 0;
  size_t limit = 0;
  std::function<void()> exceeded = nullptr;  // `total` is above `limit`; must not end calls itself
};

// The part of one call. Used on the loop's thread; `all` outlives it.
class HeldShare {
 public:
  explicit HeldShare(HeldBytes& all) : all_(all) {}
  HeldShare(const HeldShare&) = delete;
  HeldShare& operator=(const HeldShare&) = delete;
  ~HeldShare() { all_.total -= bytes(); }

  size_t bytes() const { return messages_ + own_; }

  // Of messages.
  void Hold(size_t bytes) {
    messages_ += bytes;
    all_.total += bytes;
    Check();
  }
  // At most what is held: what is written has prefixes, and is not always what was read.
  void Release(size_t bytes) {
    bytes = std::min(bytes, messages_);
    messages_ -= bytes;
    all_.total -= bytes;
  }
  void ReleaseAll() { Release(messages_); }

  // What the call holds until it is destroyed: itself, with its headers.
  void SetOwn(size_t bytes) {
    all_.total = all_.total - own_ + bytes;
    own_ = bytes;
    Check();
  }

 private:
  void Check() const {
    if (all_.total > all_.limit) all_.exceeded();
  }

  HeldBytes& all_;
  size_t messages_ = 0;
  size_t own_ = 0;
};

// The requests that handlers decide about, also those whose caller has gone: a handler may still
// wait for the runtime. Shared by all that are kept. Thread-safe.
class KeptRequests {
 public:
  explicit KeptRequests(size_t limit) : limit_(limit) {}

  // A request of so many bytes; it counts until the result is destroyed. Null if that would exceed
  // the limit.
  static std::shared_ptr<const void> Keep(const std::shared_ptr<KeptRequests>& all, size_t bytes) {
    const size_t before = all->bytes_.fetch_add(bytes);
    std::shared_ptr<const void> kept(all.get(),
                                     [all, bytes](const void*) { all->bytes_ -= bytes; });
    return before + bytes <= all->limit_ ? kept : nullptr;
  }

 private:
  const size_t limit_;
  std::atomic<size_t> bytes_ = 0;
};

}  // namespace alignd::proxy
