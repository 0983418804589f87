// Unix sockets: their paths, and listening.
#pragma once

#include <string>
#include <string_view>

#include "alignd/base/result.h"
#include "host/descriptor.h"

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

// A socket that listens at `endpoint`, and that owner and group may use (mode 0660). Makes missing
// parent directories (mode 0755) and removes a socket without a listening process. The umask does
// not change these modes. The socket is not removed automatically.
// Errors: kInvalidArgument as SocketPath, or if the path is another kind of file;
// kUnavailable if another process answers on it; kIo. Each says `listen on PATH: ...`.
Result<host::Descriptor> OpenListening(std::string_view endpoint);

}  // namespace alignd::rpc
