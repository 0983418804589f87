// The socket that systemd holds for us, so that the kubelet never finds the door shut.
#pragma once

#include <optional>
#include <string>

#include "alignd/base/result.h"
#include "host/descriptor.h"

namespace alignd::daemon {

// The CRI socket if systemd (or who acts like it) passed us one, nullopt if it passed nothing.
// Later calls, and our children, find nothing any more. The device plugins' kubelet.sock is never
// passed: plugins take its making anew for the sign to register again. Errors: kInvalidArgument if
// something else was passed than a unix socket that listens at the path of the endpoint `listen`;
// kIo. Source: sd_listen_fds(3).
Result<std::optional<host::Descriptor>> TakeInheritedSocket(const std::string& listen);

}  // namespace alignd::daemon
