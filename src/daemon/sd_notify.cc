#include "daemon/sd_notify.h"

#include <systemd/sd-daemon.h>

#include <cstdint>

namespace alignd::daemon {

void NotifySystemd(const std::string& state) { sd_notify(/*unset_environment=*/0, state.c_str()); }

std::optional<std::chrono::microseconds> WatchdogInterval() {
  uint64_t usec = 0;
  if (sd_watchdog_enabled(/*unset_environment=*/0, &usec) <= 0) return std::nullopt;
  return std::chrono::microseconds(usec / 2);
}

}  // namespace alignd::daemon
