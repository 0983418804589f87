#include "rpc/unix_socket.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <system_error>

#include "host/durable_file.h"

namespace alignd::rpc {
namespace {

constexpr mode_t kSocketMode = 0660;

Error ErrnoError(int number) {
  return {ErrorCode::kIo, std::generic_category().message(number),
          "check the path and its permissions, or choose another path"};
}

host::Descriptor MakeSocket() {
  return host::Descriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
}

// `path` has a valid length: SocketPath has checked it.
sockaddr_un AddressOf(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::ranges::copy(path, address.sun_path);
  return address;
}

// 0 if a process listens at `path`, otherwise the errno of the attempt.
int TryConnect(const std::string& path) {
  const host::Descriptor socket = MakeSocket();
  if (socket.fd() < 0) return errno;
  const sockaddr_un address = AddressOf(path);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  if (connect(socket.fd(), generic, sizeof(address)) == 0) return 0;
  return errno == EAGAIN ? 0 : errno;  // a full queue: a process listens
}

// Makes the parent directory of `path`, and removes a stale socket there.
Result<Done> ClearPath(const std::string& path) {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (const Result<Done> made = host::MakeDirectory(parent); !made.ok()) return made;
  // The error of bind would not name the directory.
  if (access(parent.c_str(), W_OK | X_OK) != 0) {
    const bool is_read_only = errno == EROFS;
    return Error{ErrorCode::kIo, std::generic_category().message(errno),
                 is_read_only ? "mount this file system writable, or choose another path"
                              : "run as root, or allow this user to write there"}
        .In("write to " + parent.string());
  }

  struct stat status {};
  if (lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT) return Done{};
    return ErrnoError(errno);
  }
  if (!S_ISSOCK(status.st_mode)) {
    return Error{ErrorCode::kInvalidArgument, "exists and is not a socket",
                 "remove the file, or choose another path"};
  }
  const int failure = TryConnect(path);
  if (failure == 0) {
    return Error{ErrorCode::kUnavailable, "another process answers on it",
                 "stop that process, or choose another path"};
  }
  if (failure != ECONNREFUSED) return ErrnoError(failure).In("connect to the existing socket");
  if (unlink(path.c_str()) != 0) return ErrnoError(errno).In("remove the stale socket");
  return Done{};
}

}  // namespace

Result<std::string> SocketPath(std::string_view endpoint) {
  constexpr std::string_view kScheme = "unix:";
  std::string_view path = endpoint;
  if (path.starts_with(kScheme)) {
    path.remove_prefix(kScheme.size());
    if (path.starts_with("//")) path.remove_prefix(2);
  }
  const std::string quoted = "\"" + std::string(endpoint) + "\"";
  if (!path.starts_with('/')) {
    return Error{ErrorCode::kInvalidArgument, quoted + ": not a unix:///path or an absolute path",
                 "write it as unix:///run/NAME.sock"};
  }
  constexpr size_t kMaxBytes = sizeof(sockaddr_un::sun_path) - 1;
  if (path.size() > kMaxBytes) {
    return Error{ErrorCode::kInvalidArgument,
                 quoted + ": the path has " + std::to_string(path.size()) +
                     " bytes; a socket's has at most " + std::to_string(kMaxBytes),
                 "choose a shorter path"};
  }
  return std::string(path);
}

bool IsServed(const std::string& path) {
  return path.size() < sizeof(sockaddr_un::sun_path) && TryConnect(path) == 0;
}

Result<host::Descriptor> OpenListening(std::string_view endpoint) {
  const Result<std::string> path = SocketPath(endpoint);
  if (!path.ok()) return path.error().In("listen");
  const std::string context = "listen on " + *path;
  const Result<Done> cleared = ClearPath(*path);
  if (!cleared.ok()) return cleared.error().In(context);
  host::Descriptor socket = MakeSocket();
  const sockaddr_un address = AddressOf(*path);
  const auto* generic = reinterpret_cast<const sockaddr*>(&address);
  // Before listen, no process can connect.
  if (socket.fd() < 0 || bind(socket.fd(), generic, sizeof(address)) != 0 ||
      chmod(path->c_str(), kSocketMode) != 0 || listen(socket.fd(), SOMAXCONN) != 0) {
    return ErrnoError(errno).In(context);
  }
  return socket;
}

}  // namespace alignd::rpc
