// Which connection is closed if there are too many.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace alignd::proxy {

// The program at the other end of a connection. A value.
struct CallerProgram {
  pid_t process = 0;   // 0: not known; those are taken for one process
  std::string cgroup;  // /proc/PID/cgroup; empty: not known, likewise
  // As which the process has connected; nullopt: not known.
  std::optional<uid_t> user = std::nullopt;
};

// A connection of a caller. A value.
struct CallerConnection {
  CallerProgram program;
  size_t calls = 0;        // now
  uint64_t last_call = 0;  // the number of its last call, counted over all connections; 0: none yet
};

// The index of the connection to close, so that a program can connect; nullopt: the new one is
// closed. `open`: the oldest first.
//
// A connection of the cgroup that would have the most is closed, and of its processes one of that
// which would have the most, so that no program can shut out the others, not even with a process
// for each connection: a kubelet has a cgroup of its own. First, one that has never had a call, the
// oldest; then the one without a call whose last call is the longest ago. If all have calls, the
// newest.
std::optional<size_t> ConnectionToClose(const std::vector<CallerConnection>& open,
                                        const CallerProgram& newcomer);

// The program that has connected this unix socket.
CallerProgram PeerProgram(int socket);

}  // namespace alignd::proxy
