// Converts errors and refusals to a gRPC status, and a peer's status to an error.
#pragma once

#include <grpcpp/support/status.h>

#include <string_view>

#include "alignd/base/result.h"
#include "alignd/pod/refusal.h"

namespace alignd::rpc {

// The status of a malfunction; the message is the error's text with its remedy.
grpc::Status ToStatus(const Error& error);

// FAILED_PRECONDITION, with "<reason>: <message>". The request is valid, the node cannot fulfil
// it. The kubelet treats all codes alike and shows the message. For other clients, UNAVAILABLE
// would mean that the runtime is down, and gRPC uses RESOURCE_EXHAUSTED for messages that are too
// long.
grpc::Status ToStatus(const Refusal& refusal);

// "DEADLINE_EXCEEDED" and the like.
std::string_view NameOf(grpc::StatusCode code);

// The error for a peer's status that is not OK; the message is "<context>: <peer's message>".
// `program`: the peer, for what to do: "the container runtime".
Error ToError(const grpc::Status& status, std::string_view context, std::string_view program);

}  // namespace alignd::rpc
