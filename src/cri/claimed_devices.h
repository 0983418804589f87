// The devices that DRA has allocated, for the decision about a pod.
#pragma once

#include <functional>

#include "alignd/base/result.h"
#include "cri/container_handlers.h"
#include "podsource/resource_source.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {

// Adds to the pod's containers the devices that DRA has allocated to them, unless nothing aligns
// with devices on this node. `config` is the container that is to be created, with the CDI names
// that the kubelet gives it; null at RunPodSandbox. If the source does not know the claims of a pod
// that has some, the pod is reduced to that container: it is decided about container by container.
// `done` runs once, perhaps before this returns, and on any thread. Errors: kUnavailable, kCorrupt,
// kIo, if it is not known which devices the pod has, or where they are. With topology policy
// best-effort, CreateContainer then goes on without them, with a line in the log.
void FindClaimed(const HandlerContext& context, podsource::PodAsk ask,
                 const runtime::v1::ContainerConfig* config,
                 std::function<void(Result<podsource::PodAsk>)> done);

}  // namespace alignd::cri
