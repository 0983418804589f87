// One call of the forwarder: of any shape, or of one request and one answer.
#pragma once

#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>

#include <memory>

#include "cri/call_count.h"
#include "cri/forwarder.h"

namespace alignd::cri {

// What calls share.
struct ForwarderContext {
  const std::shared_ptr<grpc::GenericStub> runtime;
  const std::shared_ptr<CallCount> count = std::make_shared<CallCount>();
};

// Relays message by message, in each direction, as they come: nothing is known of the method.
grpc::ServerGenericBidiReactor* ForwardStream(const ForwarderContext& context,
                                              grpc::GenericCallbackServerContext& caller);

// Relays one request and one answer, each in one piece with all that belongs to it: half as many
// steps as a stream. The answer's headers pass together with the answer. `handler` is null for a
// call that is only relayed.
grpc::ServerGenericBidiReactor* ForwardUnary(const ForwarderContext& context,
                                             grpc::GenericCallbackServerContext& caller,
                                             std::unique_ptr<CallHandler> handler);

}  // namespace alignd::cri
