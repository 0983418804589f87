#include "daemon/inherited_socket.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "rpc/unix_socket.h"

namespace alignd::daemon {
namespace {

constexpr int kFirstPassed = 3;  // systemd passes sockets from this descriptor on

// A positive number in an environment variable; nullopt if it is not set, kIo if it is another
// text.
Result<std::optional<int>> PositiveNumber(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return std::optional<int>();
  const std::string_view digits = text;
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc() || end != digits.data() + digits.size() || number <= 0) {
    return Error{ErrorCode::kIo, std::string(name) + " is not a positive number: `" + text + "`",
                 "start alignd with systemd (alignd.socket), or unset LISTEN_PID and LISTEN_FDS"}
        .In("inherited sockets");
  }
  return std::optional<int>(number);
}

// How many sockets were passed to this process; 0 if they are for another one.
Result<int> PassedSockets() {
  const Result<std::optional<int>> pid = PositiveNumber("LISTEN_PID");
  if (!pid.ok()) return pid.error();
  if (!*pid || **pid != getpid()) return 0;
  const Result<std::optional<int>> count = PositiveNumber("LISTEN_FDS");
  if (!count.ok()) return count.error();
  return count->value_or(0);
}

int SocketOption(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

bool ListensAt(int fd, const std::string& path) {
  if (SocketOption(fd, SO_TYPE) != SOCK_STREAM || SocketOption(fd, SO_ACCEPTCONN) != 1)
    return false;
  sockaddr_un address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return false;
  if (address.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path)) return false;
  const std::string_view bound(address.sun_path, size - offsetof(sockaddr_un, sun_path));
  return bound.substr(0, bound.find('\0')) == path;
}

}  // namespace

Result<std::optional<host::Descriptor>> TakeInheritedSocket(const std::string& listen) {
  const Result<int> count = PassedSockets();
  for (const char* name : {"LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"}) unsetenv(name);
  if (!count.ok()) return count.error();
  if (*count == 0) return std::optional<host::Descriptor>();
  std::vector<host::Descriptor> passed;  // closed in every case
  for (int i = 0; i < *count; ++i) {
    if (fcntl(kFirstPassed + i, F_SETFD, FD_CLOEXEC) != 0) {
      return Error{ErrorCode::kIo, std::generic_category().message(errno),
                   "start alignd with systemd (alignd.socket), or unset LISTEN_PID and LISTEN_FDS"}
          .In("inherited sockets");
    }
    passed.emplace_back(kFirstPassed + i);
  }

  const Result<std::string> path = rpc::SocketPath(listen);
  if (!path.ok()) return path.error().In("--listen");
  const std::string remedy =
      "set ListenStream= in alignd.socket to " + *path +
      " and to no other socket, or set --listen to the path in ListenStream=";
  if (*count > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 std::to_string(*count) + " sockets were passed to alignd, which accepts one",
                 remedy};
  }
  if (!ListensAt(passed[0].fd(), *path)) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the socket that was passed to alignd is not a unix socket that listens at " + *path,
        remedy};
  }
  return std::optional<host::Descriptor>(std::move(passed[0]));
}

}  // namespace alignd::daemon
