#include "daemon/inherited_socket.h"

#include <sys/socket.h>
#include <systemd/sd-daemon.h>

#include <system_error>
#include <utility>
#include <vector>

#include "rpc/unix_socket.h"

namespace alignd::daemon {

Result<std::optional<host::Descriptor>> TakeInheritedSocket(const std::string& listen) {
  const int count = sd_listen_fds(/*unset_environment=*/1);
  if (count < 0) {
    return Error{ErrorCode::kIo, std::generic_category().message(-count),
                 "start alignd with systemd (alignd.socket), or unset LISTEN_PID and LISTEN_FDS"}
        .In("inherited sockets");
  }
  if (count == 0) return std::optional<host::Descriptor>();
  std::vector<host::Descriptor> passed;  // closed in every case
  for (int i = 0; i < count; ++i) passed.emplace_back(SD_LISTEN_FDS_START + i);

  const Result<std::string> path = rpc::SocketPath(listen);
  if (!path.ok()) return path.error().In("--listen");
  const std::string remedy =
      "set ListenStream= in alignd.socket to " + *path +
      " and to no other socket, or set --listen to the path in ListenStream=";
  if (count > 1) {
    return Error{ErrorCode::kInvalidArgument,
                 std::to_string(count) + " sockets were passed to alignd, which accepts one",
                 remedy};
  }
  const int ours = sd_is_socket_unix(passed[0].fd(), SOCK_STREAM, /*listening=*/1, path->c_str(),
                                     /*length=*/0);
  if (ours <= 0) {
    return Error{
        ErrorCode::kInvalidArgument,
        "the socket that was passed to alignd is not a unix socket that listens at " + *path,
        remedy};
  }
  return std::optional<host::Descriptor>(std::move(passed[0]));
}

}  // namespace alignd::daemon
