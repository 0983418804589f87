#include "daemon/sd_notify.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "host/descriptor.h"

namespace alignd::daemon {
namespace {

// Sends one datagram to a socket's path; `@` at its begin stands for the zero of an abstract name.
// Returns an errno value, 0 if it was sent.
int SendDatagram(std::string_view path, const std::string& text) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof address.sun_path) return ENAMETOOLONG;
  if (path.front() != '/' && path.front() != '@') return EAFNOSUPPORT;
  std::ranges::copy(path, address.sun_path);
  if (path.front() == '@') address.sun_path[0] = '\0';
  const host::Descriptor descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (descriptor.fd() < 0) return errno;
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + path.size());
  const ssize_t sent = sendto(descriptor.fd(), text.data(), text.size(), MSG_NOSIGNAL,
                              reinterpret_cast<const sockaddr*>(&address), length);
  return sent < 0 ? errno : 0;
}

}  // namespace

void NotifySystemd(const std::string& state) {
  const char* path = std::getenv("NOTIFY_SOCKET");
  if (path == nullptr || *path == '\0') return;
  if (const int error = SendDatagram(path, state); error != 0) {
    spdlog::warn(
        "systemd does not get `{}`: NOTIFY_SOCKET `{}`: {}; check NotifyAccess= of the unit", state,
        path, std::generic_category().message(error));
  }
}

}  // namespace alignd::daemon
