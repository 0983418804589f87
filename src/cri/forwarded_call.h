// One call of the forwarder, from its request's headers to the last event of either side.
#pragma once

#include <memory>
#include <string>

#include "cri/forwarder.h"
#include "cri/runtime_connection.h"
#include "http2/event_loop.h"
#include "http2/session.h"

namespace alignd::cri {

// Used on the loop's thread alone.
class ForwardedCall {
 public:
  // What calls share; outlives them.
  struct Context {
    std::shared_ptr<http2::EventLoop> loop;
    RuntimeConnection& runtime;
    const HandlerFactory& handlers;
  };

  // The call that begins with stream `stream` of `caller`. It keeps itself alive.
  static std::shared_ptr<ForwardedCall> Make(const Context& context, http2::Session& caller,
                                             int32_t stream);

  virtual ~ForwardedCall() = default;

  // Where the caller's half is to be told of.
  virtual http2::StreamEvents& caller_events() = 0;
  // Ends the call for both sides.
  virtual void Abort(const grpc::Status& status) = 0;
};

}  // namespace alignd::cri
