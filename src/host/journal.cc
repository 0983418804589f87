#include "host/journal.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <system_error>

namespace alignd::host {
namespace {

// A value with line ends stands behind its length, 8 bytes, the lowest first.
void AppendField(const std::string& name, std::string_view value, std::string& datagram) {
  value = value.substr(0, Journal::kMaxValue);
  datagram += name;
  if (value.find('\n') == std::string_view::npos) {
    datagram += '=';
  } else {
    datagram += '\n';
    for (uint64_t i = 0; i < 8; ++i) {
      datagram += static_cast<char>((uint64_t{value.size()} >> (8 * i)) & 0xFFU);
    }
  }
  datagram += value;
  datagram += '\n';
}

}  // namespace

Result<Done> Journal::Send(const Fields& fields) {
  std::string datagram;
  for (const auto& [name, value] : fields) AppendField(name, value, datagram);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& path = path_.native();
  if (path.size() >= sizeof address.sun_path) {
    return Error{ErrorCode::kInvalidArgument, "socket of the journal: the path is too long",
                 "use a shorter path"};
  }
  std::ranges::copy(path, address.sun_path);
  if (socket_.fd() < 0) socket_ = Descriptor(::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ssize_t sent = 0;
  do {
    sent = sendto(socket_.fd(), datagram.data(), datagram.size(), MSG_NOSIGNAL,
                  reinterpret_cast<const sockaddr*>(&address), sizeof address);
  } while (sent < 0 && errno == EINTR);
  if (sent >= 0) return Done{};
  return Error{ErrorCode::kUnavailable,
               "send to " + path + ": " + std::generic_category().message(errno),
               "see whether systemd-journald runs, or start alignd with --log-format text"};
}

bool IsJournal(int fd, const char* stream) {
  if (stream == nullptr) return false;
  struct stat status {};
  if (fstat(fd, &status) != 0) return false;
  return std::string(stream) == std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino);
}

}  // namespace alignd::host
