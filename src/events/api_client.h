// Calls the Kubernetes API server over TLS.
#pragma once

#include "alignd/base/result.h"
#include "events/api_credential.h"
#include "events/event_sender.h"

namespace alignd::events {

// Calls with that credential, over one connection as long as it lasts, which the first call makes.
// The certificates and the token are read now: after they may have changed, the caller makes a new
// one. A call waits for 5 s for a connection to an address, and for 5 s for each part of the
// answer. The server's certificate must be of the credential's CA, and name its host. Errors: kIo,
// kNotFound or kInvalidArgument if a file of the credential cannot be read or used. The calls'
// errors: kUnavailable.
Result<ApiCall> ConnectTo(const ApiCredential& credential);

}  // namespace alignd::events
