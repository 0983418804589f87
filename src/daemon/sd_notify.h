// Applies systemd how we are. Does nothing where systemd did not start us.
#pragma once

#include <chrono>
#include <optional>
#include <string>

namespace alignd::daemon {

// Sends a state ("READY=1", "STOPPING=1", "WATCHDOG=1") to the socket in NOTIFY_SOCKET.
// Source: sd_notify(3).
void NotifySystemd(const std::string& state);

// How often systemd wants to hear WATCHDOG=1, halved; nullopt if it does not.
// Source: sd_watchdog_enabled(3).
std::optional<std::chrono::microseconds> WatchdogInterval();

}  // namespace alignd::daemon
