// The runtime's answer to an intercepted call.
#pragma once

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "proxy/grpc_framing.h"
#include "proxy/session.h"

namespace alignd::proxy {

// Joins the parts of the answer as they arrive. A value.
class CollectedAnswer {
 public:
  struct Parts {
    // If the answer is not whole, the status to answer instead.
    grpc::Status status;
    bool is_whole = false;  // it can be relayed as it came
    Headers headers;
    std::optional<Headers> trailers;     // nullopt: the headers have the status
    std::optional<std::string> message;  // with OK, always
  };

  // The headers, and at the second call the trailers.
  void Add(Headers headers) { (headers_.empty() ? headers_ : trailers_) = std::move(headers); }
  void Append(std::string_view bytes) {
    if (fault_.ok()) fault_ = message_.Append(bytes);
  }
  // Whether the message cannot be read, so that further bytes are of no use.
  bool IsBroken() const { return !fault_.ok(); }

  // What has arrived, once the stream has ended. The object is then empty. `method` is for errors.
  // The status of an answer that is not whole: that of MessageReader, UNKNOWN without a status, or
  // INTERNAL without a message.
  Parts Take(std::string_view method);

 private:
  Headers headers_;
  MessageReader message_;
  grpc::Status fault_;
  Headers trailers_;
};

// An answer of this message, with OK.
CollectedAnswer::Parts WholeAnswer(std::string message);

// Sends the whole answer on that stream.
void Send(CollectedAnswer::Parts answer, Session& session, int32_t stream);
// Ends the stream with this status. `answered`: the answer has begun.
void EndWith(const grpc::Status& status, Session& session, int32_t stream, bool answered);

// For a call that the runtime has reset with `code`; `lost`: its connection has ended, and `why`.
grpc::Status ResetStatus(uint32_t code, bool lost, const std::string& why);

}  // namespace alignd::proxy
