// Calls gRPC services on unix sockets, on the HTTP/2 connections of the proxy: unary methods, and
// methods that answer with a stream.
//
// Not by grpc::Channel: gRPC 1.51 starts ten threads with its first channel, which never end.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "host/event_loop.h"
#include "rpc/unix_socket.h"
#include "sync/mutex.h"

namespace google::protobuf {
class Message;
}  // namespace google::protobuf

namespace alignd::service {

// The threads that run the callbacks of clients. They never end, so that a client can be destroyed
// at any time. A device plugin may flood alignd with answers: what other calls bring waits for none
// of them.
enum class CallThread {
  kCalls,    // `calls`
  kPlugins,  // `plugins`
};
// Starts the thread, if it does not run. Errors: kIo, also at a limit of threads.
Result<std::shared_ptr<host::EventLoop>> CallsLoop(CallThread thread = CallThread::kCalls);
// Runs the task on that thread; at once if the thread has not been started.
void RunOn(CallThread thread, std::function<void()> task);

// One call. Can be cancelled from its construction on. Thread-safe.
class ClientCall {
 public:
  struct Options {
    std::optional<std::chrono::milliseconds> timeout = std::nullopt;  // nullopt: none
    // Whether the call waits for a peer that is not there. If not, it fails at once.
    bool waits_for_peer = false;
    // A message of the answer that is longer ends the call with RESOURCE_EXHAUSTED.
    size_t max_message_bytes = rpc::kMaxMessageBytes;
  };

  ClientCall() : ClientCall(Options()) {}
  explicit ClientCall(Options options) : options_(options) {}
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;

  // The call ends with CANCELLED, soon, unless it has ended. Does not run its callbacks itself.
  void Cancel() EXCLUDES(mutex_);

 private:
  friend class Client;
  class Exchange;

  const Options options_;
  Mutex mutex_;
  bool cancelled_ GUARDED_BY(mutex_) = false;
  std::weak_ptr<Exchange> exchange_ GUARDED_BY(mutex_);  // under way
};

// A unary call, and its response.
template <typename Response>
struct UnaryCall {
  explicit UnaryCall(ClientCall::Options options) : call(options) {}

  ClientCall call;
  Response response;
};

// A connection to one socket. It is made with the first call, and again after it broke. Calls are
// never repeated. Thread-safe.
class Client {
 public:
  // Gets the bytes of one message. If the result is not OK, the call ends with it.
  using OnMessage = std::function<grpc::Status(std::string)>;
  using OnEnd = std::function<void(const grpc::Status&)>;

  // Errors: kInvalidArgument as rpc::SocketPath; kIo as CallsLoop.
  static Result<std::shared_ptr<Client>> Dial(std::string_view endpoint,
                                              CallThread thread = CallThread::kCalls);
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;
  // Calls under way go on.
  ~Client();

  // Begins the call of `method` ("/package.Service/Method") with one message. `on_message` runs for
  // each message of the answer, in order, then `on_end` once; both are then destroyed. They run on
  // the client's thread, and must not block. A call begins once at most.
  void Start(ClientCall& call, const std::string& method, const google::protobuf::Message& request,
             OnMessage on_message, OnEnd on_end);

  // The same for a unary method. If the status is OK, `response` is filled in; it exists until
  // `on_end` has run. An answer that cannot be decoded, or that has no message, is an error
  // (INTERNAL).
  void StartUnary(ClientCall& call, const std::string& method,
                  const google::protobuf::Message& request, google::protobuf::Message& response,
                  OnEnd on_end);

  // The same; returns when the call has ended. Not on the client's thread.
  grpc::Status CallAndWait(ClientCall& call, const std::string& method,
                           const google::protobuf::Message& request,
                           google::protobuf::Message& response);

  // Why the peer has never served this connection; empty if no attempt has failed yet. nullopt: it
  // has served the connection.
  std::optional<std::string> WhyNeverConnected() const;

  // Runs the task on the client's thread.
  void After(std::chrono::milliseconds delay, std::function<void()> task);

 private:
  friend class ClientCall::Exchange;
  struct Peer;

  Client(std::shared_ptr<host::EventLoop> loop, std::shared_ptr<Peer> peer);

  const std::shared_ptr<host::EventLoop> loop_;
  std::shared_ptr<Peer> peer_;  // used on the loop's thread
};

}  // namespace alignd::service
