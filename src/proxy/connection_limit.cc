#include "proxy/connection_limit.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <utility>

namespace alignd::proxy {

std::optional<size_t> ConnectionToClose(const std::vector<CallerConnection>& open, pid_t newcomer) {
  std::map<pid_t, size_t> counts;
  for (const CallerConnection& connection : open) ++counts[connection.process];
  ++counts[newcomer];
  // Of several processes with as many, the newcomer's.
  const auto most = std::ranges::max_element(counts, {}, [&](const auto& count) {
    return std::pair(count.second, count.first == newcomer);
  });
  const pid_t process = most->first;
  std::optional<size_t> idle;
  std::optional<size_t> newest;
  for (size_t i = 0; i < open.size(); ++i) {
    if (open[i].process != process) continue;
    newest = i;
    if (open[i].calls > 0) continue;
    if (!idle || open[i].last_call < open[*idle].last_call) idle = i;
  }
  if (idle) return idle;
  return process == newcomer ? std::nullopt : newest;
}

pid_t PeerProcess(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return peer.pid;
}

}  // namespace alignd::proxy
