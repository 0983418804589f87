// Passes any call of any service on as it comes, unary or streaming, and hands the few intercepted
// ones to a handler.
#pragma once

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/status.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::proxy {

// One intercepted unary call. Made when the call arrives, destroyed when the call is over and no
// copy of `decide` is left, on any thread. Its methods run on the forwarder's one thread, and must
// not block.
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
  // is not null if and only if `status` is OK. Not called if there was no decision to forward;
  // called with CANCELLED or UNAVAILABLE if the caller or the runtime
  // has gone since, and then the runtime may or may not have done what it was asked.
  virtual void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* response) = 0;
};

// Makes the handler of a method ("/runtime.v1.RuntimeService/CreateContainer"), or null for one
// that is only relayed. Thread-safe.
using HandlerFactory = std::function<std::unique_ptr<CallHandler>(const std::string& method)>;

// The proxy itself: HTTP/2 on both sides, on one thread. What is only relayed passes as it comes,
// piece by piece: headers, bytes, trailers, half-close, resets, and no faster than the other side
// takes it. What is intercepted is held until it is whole.
// Thread-safe.
class Forwarder {
 public:
  struct Settings {
    std::string runtime_socket;  // a path
    HandlerFactory handlers;
    // How long calls wait for a runtime that takes the connection but does not serve it yet; as
    // long as a gRPC client would, by default (GRPC_ARG_MIN_RECONNECT_BACKOFF_MS).
    std::chrono::milliseconds served_within{20'000};
    // A connection to the runtime has ended or broken. On the forwarder's thread; may be null.
    std::function<void()> runtime_lost{};
  };

  // Serves the connections that come to `listening`, a unix stream socket that listens. Errors:
  // kIo.
  static Result<std::unique_ptr<Forwarder>> Start(host::Descriptor listening, Settings settings);

  virtual ~Forwarder() = default;  // as Stop(0)

  // Takes no more connections and asks the callers to open no more calls here, lets those that they
  // opened before they knew end by themselves for `grace`, and ends the others with UNAVAILABLE.
  // Once it returns no handler's method runs. Connections that nobody has taken wait in `listening`
  // for who else has it open. Not on the forwarder's thread.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace alignd::proxy
