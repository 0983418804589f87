// Which connection is closed if there are too many.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace alignd::proxy {

// A connection of a caller. A value.
struct CallerConnection {
  pid_t process = 0;       // 0: not known; those are taken for one process
  size_t calls = 0;        // now
  uint64_t last_call = 0;  // the number of its last call, counted over all connections; 0: none yet
};

// The index of the connection to close, so that a process can connect; nullopt: the new one is
// closed. `open`: the oldest first.
//
// A connection of the process that would have the most is closed, so that no process can shut out
// the others. First, one that has never had a call, the oldest; then the one without a call whose
// last call is the longest ago. If all have calls, the newest.
std::optional<size_t> ConnectionToClose(const std::vector<CallerConnection>& open, pid_t newcomer);

// The process that has connected this unix socket; 0 if it is not known.
pid_t PeerProcess(int socket);

}  // namespace alignd::proxy
