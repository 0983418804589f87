// The calls while the bypass is on.
#pragma once

#include "proxy/forwarder.h"
#include "reconcile/bypass.h"

namespace alignd::cri {

// `handlers`, except for calls that begin while the bypass is not off:
// * On: the call is relayed as it comes. Only a container whose devices the kubelet has allocated
//   from alignd's mirror is refused, with UNAVAILABLE: relayed as it comes, it would start without
//   its devices. `mirrors_devices`: there may be such containers.
// * Ending: calls that need a decision are refused with UNAVAILABLE. The kubelet repeats them.
// `bypass` outlives the result.
proxy::HandlerFactory WithBypass(const reconcile::Bypass& bypass, proxy::HandlerFactory handlers,
                                 bool mirrors_devices);

}  // namespace alignd::cri
