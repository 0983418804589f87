// gRPC over unix sockets: listening and dialling.
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

// Whether a process listens at `path`. Does not wait. A path that is too long for a socket address
// is served by none.
bool IsServed(const std::string& path);

// Builds and starts `builder`'s server, with its services already registered, on a unix socket that
// owner and group may use (mode 0660). Makes missing parent directories (mode 0755) and removes a
// socket without a listening process. The umask does not change these modes. gRPC removes the
// socket when the server shuts down.
// Errors: kInvalidArgument as SocketPath, or if the path is another kind of file;
// kUnavailable if another process answers on it; kIo. Each says `listen on PATH: ...`.
Result<std::unique_ptr<grpc::Server>> Listen(std::string_view endpoint,
                                             grpc::ServerBuilder& builder);

// The same without gRPC: a socket that listens. It is not removed automatically.
// Errors: as Listen.
Result<host::Descriptor> OpenListening(std::string_view endpoint);

// A channel to a unix socket. Connects with the first call, and again at most 1 s after the peer
// listens again. Without a peer, calls fail with UNAVAILABLE at once, and with one that takes the
// connection and says nothing after 5 s, unless they wait for it (wait_for_ready). gRPC never
// resends on it. Errors: kInvalidArgument as SocketPath.
Result<std::shared_ptr<grpc::Channel>> Dial(std::string_view endpoint);

}  // namespace alignd::rpc
