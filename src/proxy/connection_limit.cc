#include "proxy/connection_limit.h"

#include <sys/socket.h>

#include <algorithm>
#include <map>

#include "host/file.h"

namespace alignd::proxy {
namespace {

template <typename Key>
using Counts = std::map<Key, size_t>;

template <typename Key>
size_t Most(const Counts<Key>& counts) {
  size_t most = 0;
  for (const auto& [key, count] : counts) most = std::max(most, count);
  return most;
}

// The cgroup with the most connections; of several with as many, the newcomer's.
std::string FullestCgroup(const std::vector<CallerConnection>& open, const std::string& newcomer) {
  Counts<std::string> counts = {{newcomer, 1}};
  for (const CallerConnection& connection : open) ++counts[connection.program.cgroup];
  const size_t most = Most(counts);
  if (counts[newcomer] == most) return newcomer;
  return std::ranges::find(counts, most, [](const auto& count) { return count.second; })->first;
}

}  // namespace

std::optional<size_t> ConnectionToClose(const std::vector<CallerConnection>& open,
                                        const CallerProgram& newcomer) {
  const std::string cgroup = FullestCgroup(open, newcomer.cgroup);
  Counts<pid_t> counts;
  if (cgroup == newcomer.cgroup) counts[newcomer.process] = 1;
  for (const CallerConnection& connection : open) {
    if (connection.program.cgroup == cgroup) ++counts[connection.program.process];
  }
  const size_t most = Most(counts);
  const auto own = counts.find(newcomer.process);
  const bool is_own = cgroup == newcomer.cgroup && own->second == most;
  std::optional<size_t> idle;
  std::optional<size_t> newest;
  for (size_t i = 0; i < open.size(); ++i) {
    const CallerProgram& program = open[i].program;
    if (program.cgroup != cgroup || counts[program.process] != most) continue;
    if (is_own && program.process != newcomer.process) continue;
    newest = i;
    if (open[i].calls > 0) continue;
    if (!idle || open[i].last_call < open[*idle].last_call) idle = i;
  }
  if (idle) return idle;
  return is_own ? std::nullopt : newest;
}

CallerProgram PeerProgram(int socket) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return {};
  CallerProgram program{.process = peer.pid, .cgroup = {}, .user = peer.uid};
  // The kernel writes it from memory, so that this does not wait.
  const auto cgroup = host::ReadFile("/proc/" + std::to_string(peer.pid) + "/cgroup");
  if (cgroup.ok()) program.cgroup = *cgroup;
  return program;
}

}  // namespace alignd::proxy
