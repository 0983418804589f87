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

// One intercepted unary call. Made when the call arrives, destroyed when the call is over and no
// copy of `decide` is left, on any thread. Its methods run one after the other, on gRPC's threads,
// and must not block.
class CallHandler {
 public:
  // The bytes that go to the runtime instead, or the status that the caller gets at once.
  using Decision = std::variant<grpc::ByteBuffer, grpc::Status>;

  virtual ~CallHandler() = default;

  // The whole request message. Calls `decide` once, now or later, on any thread; later calls, and
  // all calls after the caller has gone, have no effect. Whoever holds a copy of `decide` may use
  // this handler, so the handler must not keep one itself. If the last copy goes without a call,
  // the caller gets UNAVAILABLE.
  virtual void OnRequest(grpc::ByteBuffer request, std::function<void(Decision)> decide) = 0;

  // The runtime has answered; the answer goes to the caller as it is when this returns. `response`
  // is not null if and only if `status` is OK. Not called if the request was never forwarded;
  // called with what gRPC makes of it (CANCELLED, UNAVAILABLE, ...) if the caller or the runtime
  // has gone since, and then the runtime may or may not have done what it was asked.
  virtual void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* response) = 0;
};

// Makes the handler of a method ("/runtime.v1.RuntimeService/CreateContainer"), or null for one
// that is only relayed. Thread-safe.
using HandlerFactory = std::function<std::unique_ptr<CallHandler>(const std::string& method)>;

// The service to register with the server. Status, initial and trailing metadata, deadlines,
// half-close and cancellation pass both ways; what is intercepted or known to be unary in two
// pieces, the rest message by message. Headers of the connection (`grpc-*`, `user-agent`, `te`,
// ...) and those that gRPC would not send stay behind. `backend` is the channel to the runtime.
//
// To stop: `server->Shutdown(deadline)` lets calls end by themselves until `deadline` and cancels
// the others, streams that never end among them; then destroy the server, then the service. The
// service's destructor waits until the runtime's side of every call is over as well: no handler's
// method runs after it.
std::unique_ptr<grpc::CallbackGenericService> MakeForwarder(std::shared_ptr<grpc::Channel> backend,
                                                            HandlerFactory handlers);

}  // namespace alignd::cri
