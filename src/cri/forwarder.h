// Passes any method of any service through as bytes, unary or streaming, and hands the few
// intercepted ones to a handler.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <functional>
#include <memory>
#include <string>
#include <variant>

namespace alignd::cri {

// One intercepted unary call. Made when the call arrives, destroyed when it is over. Its methods
// run one after the other, on gRPC's threads, and must not block.
class CallHandler {
 public:
  // The bytes that go to the runtime instead, or the status that the caller gets at once.
  using Decision = std::variant<grpc::ByteBuffer, grpc::Status>;

  virtual ~CallHandler() = default;

  // The whole request message. Calls `decide` exactly once, now or later, on any thread; after the
  // caller has gone it has no effect.
  virtual void OnRequest(grpc::ByteBuffer request, std::function<void(Decision)> decide) = 0;

  // The runtime has answered; the answer goes to the caller as it is when this returns. `response`
  // is null unless `status` is OK. Not called if the request was never forwarded.
  virtual void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* response) = 0;
};

// Makes the handler of a method ("/runtime.v1.RuntimeService/CreateContainer"), or null for one
// that is only relayed. Thread-safe.
using HandlerFactory = std::function<std::unique_ptr<CallHandler>(const std::string& method)>;

// The service to register with the server. Status code, message, details, initial and trailing
// metadata, deadlines, half-close and cancellation pass in both directions.
// `backend` is the channel to the runtime.
std::unique_ptr<grpc::CallbackGenericService> MakeForwarder(std::shared_ptr<grpc::Channel> backend,
                                                            HandlerFactory handlers);

}  // namespace alignd::cri
