// One call that passes the forwarder, from the request's headers to the last event on either side.
#pragma once

#include <memory>
#include <string>

#include "host/event_loop.h"
#include "proxy/forwarder.h"
#include "proxy/runtime_connection.h"
#include "proxy/session.h"

namespace alignd::proxy {

// Used on the loop's thread alone.
class ForwardedCall {
 public:
  // Shared by all calls; outlives them.
  struct Context {
    std::shared_ptr<host::EventLoop> loop;
    RuntimeConnection& runtime;
    const HandlerFactory& handlers;
  };

  // Makes the call that begins with stream `stream` of `caller`. It keeps itself alive.
  static std::shared_ptr<ForwardedCall> Make(const Context& context, Session& caller,
                                             int32_t stream);

  virtual ~ForwardedCall() = default;

  // Receives the events of the caller's stream.
  virtual StreamEvents& caller_events() = 0;
  // Ends the call on both sides.
  virtual void Abort(const grpc::Status& status) = 0;
};

}  // namespace alignd::proxy
