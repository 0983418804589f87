// gRPC over unix sockets: how we listen and how we dial.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace grpc {
class Channel;
class Server;
class ServerBuilder;
}  // namespace grpc

namespace alignd::rpc {

// The longest message in either direction. Source: the kubelet's CRI client (maxMsgSize) and
// containerd's default for both directions.
inline constexpr int kMaxMessageBytes = 16 * 1024 * 1024;

// The path in `unix:///run/x.sock`, `unix:/run/x.sock` or `/run/x.sock`.
// Errors: kInvalidArgument if the path is empty, relative, or too long for a socket address (107
// bytes), or if the endpoint has another scheme.
Result<std::string> SocketPath(std::string_view endpoint);

// Builds and starts `builder`'s server, with its services already registered, on a unix socket that
// owner and group may use (mode 0660). Makes missing parent directories (mode 0755) and removes a
// socket that nobody answers on. gRPC removes the socket when the server shuts down.
// Errors: kInvalidArgument as SocketPath, or if the path holds something that is no socket;
// kUnavailable if another process answers on it; kIo. Each says `listen on PATH: ...`.
Result<std::unique_ptr<grpc::Server>> Listen(std::string_view endpoint,
                                             grpc::ServerBuilder& builder);

// The same for who serves it without gRPC: a socket that listens. It is not removed by itself.
// Errors: as Listen.
Result<host::Descriptor> OpenListening(std::string_view endpoint);

// A channel to a unix socket; connects with the first call and again after the peer went away, at
// most a second after it is back. Calls fail with UNAVAILABLE at once while it is away, unless they
// ask to wait. gRPC never resends on it.
// Errors: kInvalidArgument as SocketPath.
Result<std::shared_ptr<grpc::Channel>> Dial(std::string_view endpoint);

}  // namespace alignd::rpc
