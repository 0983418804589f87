// How gRPC uses HTTP/2: messages in DATA frames, statuses in headers.
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/session.h"
#include "rpc/unix_socket.h"

namespace alignd::proxy {

// Joins the pieces in which a message arrives.
class MessageReader {
 public:
  MessageReader() = default;
  explicit MessageReader(size_t max_bytes) : max_bytes_(max_bytes) {}

  // Errors: RESOURCE_EXHAUSTED if it is longer than `max_bytes`; UNIMPLEMENTED if it is compressed;
  // INTERNAL if more follows.
  grpc::Status Append(std::string_view bytes);
  bool IsComplete() const { return size_ && bytes_.size() == *size_; }
  // Whether a part of it has arrived.
  bool HasBegun() const { return !prefix_.empty(); }
  // The bytes that complete the message, or its prefix if that is not complete.
  size_t Missing() const;
  // The bytes of the complete message. The reader is then as new.
  std::string TakeMessage();

 private:
  size_t max_bytes_ = rpc::kMaxMessageBytes;
  std::string prefix_;          // the part that has arrived
  std::optional<size_t> size_;  // of the message; set once the prefix is complete
  std::string bytes_;
};

// INTERNAL, for a unary call with more bytes than those of its one message.
grpc::Status MoreThanOneMessage();

// RESOURCE_EXHAUSTED: see KeptRequests.
grpc::Status TooManyKept();
// RESOURCE_EXHAUSTED: once parsed, a request of so many bytes would take more than the limit.
grpc::Status TooManyParts(size_t bytes, size_t limit);

// The message with its prefix before it.
std::string FrameOf(std::string message);

// The value of `grpc-timeout`: at most 8 digits and a unit. At most a day, so that it can be added
// to a time. nullopt: there is none, or it cannot be read; the call has no deadline then.
std::optional<std::chrono::microseconds> ParseTimeout(std::string_view value);

// The headers for a request whose message alignd may have replaced.
Headers ForNewMessage(const Headers& headers);

bool HasStatus(const Headers& trailers);
// The status at the end of an answer. If there is none, the HTTP status decides, as for gRPC's
// clients; without that, it is UNKNOWN.
grpc::Status StatusIn(const Headers& trailers);

// The headers before an answer's message, trailers with the status, and the headers of an answer
// that has nothing but a status.
Headers AnswerBegin();
Headers TrailersWith(const grpc::Status& status);
Headers AnswerWith(const grpc::Status& status);

}  // namespace alignd::proxy
