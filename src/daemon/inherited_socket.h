// The socket of systemd's socket activation. It accepts connections while alignd restarts.
#pragma once

#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::daemon {

// The CRI socket that systemd passed; nullopt if it passed none. Later calls, and child processes,
// find no socket any more. The device plugins' kubelet.sock is never passed: plugins register again
// when that file is recreated.
// Errors: kInvalidArgument if anything else was passed than one unix socket that listens at the
// path of the endpoint `listen`; kIo. Source: sd_listen_fds(3).
Result<std::optional<host::Descriptor>> TakeInheritedSocket(const std::string& listen);

}  // namespace alignd::daemon
