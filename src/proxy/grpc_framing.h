// gRPC as it lies in HTTP/2: messages in data, statuses in headers.
// Source: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <optional>
#include <string>
#include <string_view>

#include "proxy/session.h"

namespace alignd::proxy {

// Puts the one message of a call together from the pieces in which it comes.
class MessageReader {
 public:
  // Errors: RESOURCE_EXHAUSTED if it is longer than rpc::kMaxMessageBytes; UNIMPLEMENTED if it is
  // compressed; INTERNAL if more follows.
  grpc::Status Append(std::string_view bytes);
  bool IsComplete() const { return size_ && bytes_.size() == *size_; }
  // Of a complete message. A copy of its bytes.
  grpc::ByteBuffer Message() const;

 private:
  std::string prefix_;          // as far as it is there
  std::optional<size_t> size_;  // of the message, once that is known
  std::string bytes_;
};

// The message with its prefix.
std::string FrameOf(const grpc::ByteBuffer& message);

bool HasStatus(const Headers& trailers);
// The status that an answer ends with. UNKNOWN where there is none.
grpc::Status StatusIn(const Headers& trailers);

// The trailers, and the answer that is nothing but a status.
Headers TrailersWith(const grpc::Status& status);
Headers AnswerWith(const grpc::Status& status);

}  // namespace alignd::proxy
