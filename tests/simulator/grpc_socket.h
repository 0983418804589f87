// gRPC's own servers and channels on unix sockets: alignd's peers use them.
#pragma once

#include <grpcpp/channel.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <memory>
#include <string_view>

#include "alignd/base/result.h"

namespace alignd::simulator {

// Builds and starts `builder`'s server, with its services already registered, on a unix socket of
// mode 0660 at `endpoint` (see rpc/unix_socket.h). Makes missing parent directories and replaces a
// socket without a listening process. gRPC removes the socket when the server shuts down.
// Errors: kInvalidArgument as rpc::SocketPath; kUnavailable if another process answers on it; kIo.
// Each says `listen on PATH: ...`.
Result<std::unique_ptr<grpc::Server>> Listen(std::string_view endpoint,
                                             grpc::ServerBuilder& builder);

// A channel to a unix socket. Connects with the first call, and again at most 1 s after the peer
// listens again. Without a peer, calls fail with UNAVAILABLE at once, and with one that takes the
// connection and says nothing after 5 s, unless they wait for it (wait_for_ready). gRPC never
// resends on it. Errors: kInvalidArgument as rpc::SocketPath.
Result<std::shared_ptr<grpc::Channel>> Dial(std::string_view endpoint);

}  // namespace alignd::simulator
