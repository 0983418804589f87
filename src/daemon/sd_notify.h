// Reports alignd's state to systemd. Does nothing if systemd did not start alignd.
#pragma once

#include <string>

namespace alignd::daemon {

// Sends a state ("READY=1", "STOPPING=1", "WATCHDOG=1") to the socket in NOTIFY_SOCKET. A failure
// is logged. libsystemd is not used, for it cannot be linked statically. Source: the protocol in
// sd_notify(3).
void NotifySystemd(const std::string& state);

}  // namespace alignd::daemon
