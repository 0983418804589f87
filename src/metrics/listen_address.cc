#include "metrics/listen_address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <system_error>
#include <utility>

#include "rpc/unix_socket.h"

namespace alignd::metrics {
namespace {

// The connections that the kernel holds until they are accepted.
constexpr int kBacklog = 64;
constexpr std::string_view kUnix = "unix:";

Error Unreadable(std::string_view text) {
  return {ErrorCode::kInvalidArgument, "\"" + std::string(text) + "\": not an address",
          "give off, 127.0.0.1:PORT, [::1]:PORT or unix:/PATH; names of hosts are not resolved"};
}

struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;
  const sockaddr* generic() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// Without an address if `ip` is none.
SocketAddress AddressOf(const std::string& ip, uint16_t port) {
  SocketAddress address;
  auto* const v4 = reinterpret_cast<sockaddr_in*>(&address.storage);
  auto* const v6 = reinterpret_cast<sockaddr_in6*>(&address.storage);
  if (inet_pton(AF_INET, ip.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    address.size = sizeof(*v4);
  } else if (inet_pton(AF_INET6, ip.c_str(), &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    address.size = sizeof(*v6);
  }
  return address;
}

bool IsV6(const std::string& ip) { return ip.find(':') != std::string::npos; }

Error BindError(int code) {
  const std::string what = std::generic_category().message(code);
  if (code == EADDRINUSE) {
    return {ErrorCode::kUnavailable, what,
            "stop the process that listens there (ss -ltnp), or give --metrics-address another "
            "address"};
  }
  return {ErrorCode::kIo, what, "give --metrics-address an address of this machine, or off"};
}

// A thread of its own accepts and waits: with a socket that does not block, it would not rest.
Result<host::Descriptor> ListenOnPath(const std::string& path) {
  Result<host::Descriptor> socket = rpc::OpenListening(path);
  if (!socket.ok()) return socket.error();
  const int flags = fcntl(socket->fd(), F_GETFL);
  if (flags < 0 || fcntl(socket->fd(), F_SETFL, flags & ~O_NONBLOCK) != 0) {
    return BindError(errno).In("listen on " + path);
  }
  return socket;
}

}  // namespace

std::string ListenAddress::ToString() const {
  if (!path.empty()) return std::string(kUnix) + path;
  return (IsV6(ip) ? "[" + ip + "]" : ip) + ":" + std::to_string(port);
}

Result<std::optional<ListenAddress>> ParseListenAddress(std::string_view text) {
  if (text == "off") return std::optional<ListenAddress>();
  ListenAddress address;
  if (text.starts_with(kUnix)) {
    Result<std::string> path = rpc::SocketPath(text);
    if (!path.ok()) return path.error();
    address.path = *std::move(path);
    return std::optional(std::move(address));
  }
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return Unreadable(text);
  std::string_view ip = text.substr(0, colon);
  const std::string_view port = text.substr(colon + 1);
  const bool in_brackets = ip.starts_with('[') && ip.ends_with(']');
  if (in_brackets) ip = ip.substr(1, ip.size() - 2);
  address.ip = ip;
  const auto [end, code] = std::from_chars(port.data(), port.data() + port.size(), address.port);
  const bool is_port = code == std::errc() && end == port.data() + port.size();
  if (!is_port || in_brackets != IsV6(address.ip) || AddressOf(address.ip, 0).size == 0) {
    return Unreadable(text);
  }
  return std::optional(std::move(address));
}

Result<host::Descriptor> Listen(const ListenAddress& address) {
  if (!address.path.empty()) return ListenOnPath(address.path);
  const SocketAddress to = AddressOf(address.ip, address.port);
  host::Descriptor socket(
      ::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, /*protocol=*/0));
  constexpr int kOn = 1;
  // After a restart, connections of the process before may still be in TIME_WAIT.
  if (socket.fd() < 0 ||
      setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &kOn, sizeof(kOn)) != 0 ||
      (IsV6(address.ip) &&
       setsockopt(socket.fd(), IPPROTO_IPV6, IPV6_V6ONLY, &kOn, sizeof(kOn)) != 0) ||
      bind(socket.fd(), to.generic(), to.size) != 0 || listen(socket.fd(), kBacklog) != 0) {
    return BindError(errno).In("listen on " + address.ToString());
  }
  return socket;
}

uint16_t PortOf(const host::Descriptor& socket) {
  SocketAddress address;
  address.size = sizeof(address.storage);
  if (getsockname(socket.fd(), reinterpret_cast<sockaddr*>(&address.storage), &address.size) != 0) {
    return 0;
  }
  if (address.storage.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const sockaddr_in*>(&address.storage)->sin_port);
  }
  if (address.storage.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const sockaddr_in6*>(&address.storage)->sin6_port);
  }
  return 0;
}

}  // namespace alignd::metrics
