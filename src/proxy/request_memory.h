// What a handler keeps of a request, and the limits of that.
#pragma once

#include <grpcpp/support/status.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "proxy/forwarder.h"
#include "proxy/grpc_framing.h"
#include "proxy/held_bytes.h"

namespace alignd::proxy {

// Used on the loop's thread.
class RequestMemory {
 public:
  struct Admitted {
    grpc::Status status;               // not OK: the handler does not get the request
    std::shared_ptr<const void> kept;  // counts until it is destroyed
    size_t parsed = 0;                 // about the bytes of the parsed request
  };

  // `parsed_bytes` may be null: the handlers parse nothing.
  RequestMemory(ParsedBytes parsed_bytes, size_t max_parsed, size_t max_kept)
      : parsed_bytes_(std::move(parsed_bytes)),
        max_parsed_(max_parsed),
        kept_(std::make_shared<KeptRequests>(max_kept)) {}

  // A handler is to get this request of `method`.
  Admitted Admit(const std::string& method, const std::string& request) const {
    Admitted admitted;
    if (parsed_bytes_) admitted.parsed = parsed_bytes_(method, request);
    if (admitted.parsed > max_parsed_) {
      admitted.status = TooManyParts(request.size(), max_parsed_);
      return admitted;
    }
    admitted.kept = KeptRequests::Keep(kept_, kCallBytes + request.size() + admitted.parsed);
    if (admitted.kept == nullptr) admitted.status = TooManyKept();
    return admitted;
  }

 private:
  const ParsedBytes parsed_bytes_;
  const size_t max_parsed_;
  const std::shared_ptr<KeptRequests> kept_;
};

// Takes the place of a handler whose call has ended, and of what that keeps.
class EndedHandler final : public CallHandler {
  void OnRequest(std::string, std::function<void(Decision)>) override {}
  void OnResponse(const grpc::Status&, const std::string*) override {}
};

}  // namespace alignd::proxy
