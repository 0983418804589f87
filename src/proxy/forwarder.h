// Forwards every call of every service, unary or streaming, to the runtime. A handler decides about
// the few methods that are intercepted. Without a runtime, the handlers answer all calls.
#pragma once

#include <grpcpp/support/status.h>
#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "alignd/base/result.h"
#include "host/descriptor.h"
#include "host/event_loop.h"
#include "proxy/call_events.h"
#include "rpc/parsed_bytes.h"
#include "rpc/unix_socket.h"

namespace alignd::proxy {

class MessageStream;

// One intercepted unary call. It is made when the call arrives, and destroyed on any thread when
// the call is over and no copy of `decide` exists any more. Its methods run on the thread of the
// forwarder's event loop and must not block. Messages are protobuf's bytes, without gRPC's prefix.
class CallHandler {
 public:
  // The handler's own answer: the message with which the call ends with OK.
  struct Answer {
    std::string message;
  };
  // The handler's own answers, until the caller cancels.
  using Stream = std::shared_ptr<MessageStream>;
  // The message that is sent to the runtime, the handler's own answer or answers, or the status
  // with which the call ends at once.
  using Decision = std::variant<std::string, Answer, Stream, grpc::Status>;

  virtual ~CallHandler() = default;

  // Whether the call is only relayed. Then no other method is called, and the handler is destroyed
  // when the call has ended (OutlivesCaller).
  virtual bool IsRelayed() const { return false; }

  // Whether the runtime may go on with the call if the caller cancels it after the runtime may have
  // its request. Then the handler lives until the runtime has answered or its connection has ended.
  virtual bool OutlivesCaller() const { return false; }

  // As which user the caller has connected; nullopt: not known. Before the other methods.
  virtual void OnCaller(std::optional<uid_t> user) { (void)user; }

  // The call has begun. If this is not OK, the call ends with it at once, before any message.
  virtual grpc::Status OnCall() { return grpc::Status(); }

  // `request` is the whole request message. Calls `decide` once, now or later, on any thread.
  // Further calls, and calls after the caller has cancelled, have no effect. A copy of `decide`
  // keeps this handler alive, so the handler must not keep one as a member. If the last copy is
  // destroyed without a call, the caller gets UNAVAILABLE.
  virtual void OnRequest(std::string request, std::function<void(Decision)> decide) = 0;

  // The runtime has answered. The answer goes to the caller as it came when this returns.
  // `response` is null if and only if `status` is not OK. Not called if no message was sent to the
  // runtime. Called with CANCELLED if the caller has cancelled since, and with UNAVAILABLE if the
  // connection to the runtime has ended; then the runtime may or may not have executed the request.
  virtual void OnResponse(const grpc::Status& status, const std::string* response) = 0;

  // Whether the handler answers the call itself, although the runtime has answered it with this
  // error. If so, AnswerInstead follows. OnResponse has been called before.
  virtual bool AnswersInsteadOf(const grpc::Status& error) const {
    (void)error;
    return false;
  }
  // As OnRequest, but the decision is no message for the runtime.
  virtual void AnswerInstead(const grpc::Status& error, std::function<void(Decision)> decide) {
    (void)error;
    (void)decide;
  }

  // When the caller gives up (grpc-timeout). Called before OnRequest if the caller says so.
  virtual void OnDeadline(std::chrono::steady_clock::time_point deadline) { (void)deadline; }

  // The call has ended while the handler was deciding: a decision has no effect any more. A handler
  // that waits for something need not wait any longer.
  virtual void OnCancelled() {}
};

// Makes the handler of a method ("/runtime.v1.RuntimeService/CreateContainer"); null for a method
// that is not intercepted. Thread-safe.
using HandlerFactory = std::function<std::unique_ptr<CallHandler>(const std::string& method)>;

// About the bytes of memory that the handler of a method takes for a parsed request: many times
// those of the request, if it has many small parts. Thread-safe.
using ParsedBytes = std::function<size_t(const std::string& method, const std::string& request)>;

// The proxy itself: HTTP/2 on both sides, on the thread of one event loop. A call that is not
// intercepted passes as it comes, piece by piece: headers, bytes, trailers, half-close, resets, and
// no faster than the other side reads. The request of an intercepted call waits until it is whole.
// Thread-safe.
class Forwarder {
 public:
  struct Settings {
    // A path. Empty: there is no runtime. Then each method has a handler, none is relayed, and
    // handlers decide with an answer or a status.
    std::string runtime_socket;
    HandlerFactory handlers;
    // How long calls wait for a runtime that accepts the connection but does not serve it yet. The
    // default is that of a gRPC client (GRPC_ARG_MIN_RECONNECT_BACKOFF_MS).
    std::chrono::milliseconds served_within{20'000};
    // The bytes that all calls together may hold: headers, and messages that are not whole, not
    // decided or not read. Beyond it, the largest calls of the connection that holds the most end
    // with RESOURCE_EXHAUSTED. A handler can go on with its request after its call has ended:
    // beyond as many bytes of requests that handlers have, further requests get RESOURCE_EXHAUSTED.
    // A request counts with `parsed_bytes`, and at least 2 KiB.
    size_t max_held_bytes = size_t{256} << 20;
    // Requests of intercepted calls. A longer one gets RESOURCE_EXHAUSTED.
    size_t max_request_bytes = rpc::kMaxMessageBytes;
    ParsedBytes parsed_bytes{};  // null: handlers parse nothing
    // Of one request: a larger one gets RESOURCE_EXHAUSTED.
    size_t max_parsed_bytes = rpc::kMaxParsedRequestBytes;
    uint32_t max_streams = 10'000;  // of one connection at a time
    // Beyond it, a connection of the process that has the most is closed (connection_limit.h).
    size_t max_connections = 1024;
    CallEvents* events = nullptr;  // outlives the forwarder; null: nothing is reported
    // A connection to the runtime has ended or broken. Runs on the loop's thread; may be null.
    std::function<void()> runtime_lost{};
  };

  // Serves the connections that come to `listening`, a unix stream socket that listens. `loop` runs
  // until the forwarder has been destroyed. Errors: kIo.
  static Result<std::unique_ptr<Forwarder>> Start(std::shared_ptr<host::EventLoop> loop,
                                                  host::Descriptor listening, Settings settings);

  virtual ~Forwarder() = default;  // as Stop(0)

  // Accepts no more connections and asks the callers to open no more calls. Calls that they opened
  // before may end by themselves for `grace`; then they end with UNAVAILABLE. When this returns,
  // the forwarder calls no method of a handler any more. Connections that are not accepted wait in
  // `listening` for a process that still has it open. Not on the loop's thread.
  virtual void Stop(std::chrono::milliseconds grace) = 0;
};

}  // namespace alignd::proxy
