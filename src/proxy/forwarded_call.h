// One call that passes the forwarder, from the request's headers to the last event on either side.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>

#include "host/event_loop.h"
#include "proxy/client_connection.h"
#include "proxy/forwarder.h"
#include "proxy/held_bytes.h"
#include "proxy/request_memory.h"
#include "proxy/session.h"

namespace alignd::proxy {

// Used on the loop's thread alone.
class ForwardedCall {
 public:
  // The calls that have not ended.
  using Registry = std::unordered_set<ForwardedCall*>;

  // Shared by all calls; outlives them.
  struct Context {
    std::shared_ptr<host::EventLoop> loop;
    ClientConnection* runtime;  // null: there is none
    const HandlerFactory& handlers;
    Registry& calls;
    HeldBytes& held;
    const RequestMemory& requests;
    size_t max_request_bytes;   // of intercepted calls
    CallEvents* events;         // may be null
    std::optional<uid_t> user;  // of the caller; nullopt: not known
  };

  // Makes the call that begins with stream `stream` of `caller`. It keeps itself alive, and is in
  // `context.calls` as long as it exists. Returns the receiver of the events of the caller's
  // stream.
  static StreamEvents& Make(const Context& context, Session& caller, int32_t stream);

  virtual ~ForwardedCall() = default;

  // Ends the call on both sides. The call may be destroyed then.
  virtual void Abort(const grpc::Status& status) = 0;

  // The number of bytes that the call has of `Context::held`.
  virtual size_t held() const = 0;
  // The connection that it came from; null if that has ended.
  virtual const Session* caller() const = 0;
  // Ends the call so that it holds nothing. With a reset, without the status, where a part of the
  // answer has been sent.
  virtual void Evict(const grpc::Status& status) = 0;
};

}  // namespace alignd::proxy
