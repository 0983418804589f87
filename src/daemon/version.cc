// Alone in its source: it is compiled again for each commit.
#include <alignd_commit.h>

#include "daemon/command_line.h"

namespace alignd::daemon {

std::string VersionOf(const std::string& program) {
  return program + " " ALIGND_VERSION " (commit " ALIGND_COMMIT ")";
}

}  // namespace alignd::daemon
