// The one place where our errors and refusals become a gRPC status, and a peer's status an error.
#pragma once

#include <grpcpp/support/status.h>

#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/refusal.h"

namespace alignd::rpc {

// The status of a malfunction; the message is the error's text with its remedy.
grpc::Status ToStatus(const Error& error);

// FAILED_PRECONDITION, with "<reason>: <message>". The request is right, the node cannot grant it.
// The kubelet treats all codes alike and shows the message, so the code is for people and other
// clients: UNAVAILABLE would read as a dead runtime, and RESOURCE_EXHAUSTED is what gRPC itself
// says of messages that are too long.
grpc::Status ToStatus(const Refusal& refusal);

// "DEADLINE_EXCEEDED" and the like.
std::string_view NameOf(grpc::StatusCode code);

// What a peer's status, which is not OK, means to us; the message is "<context>: <peer's message>".
Error ToError(const grpc::Status& status, std::string_view context);

}  // namespace alignd::rpc
