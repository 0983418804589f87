#include "cri/lifecycle.h"

namespace alignd::cri {
namespace {

void RecordStop(const HandlerContext& context, const std::string& id) {
  const std::optional<std::string> pod_uid = context.registry.PodOfSandbox(id);
  context.registry.SandboxStopped(id);
  if (pod_uid && !context.registry.HasRunningSandbox(*pod_uid)) {
    context.allocation.SandboxStopped(*pod_uid, /*is_removed=*/false);
  }
  context.reconciler.PodStopped();
}

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeStopPodSandbox(const HandlerContext& context) {
  return std::make_unique<LifecycleHandler<runtime::v1::StopPodSandboxRequest>>(context,
                                                                                &RecordStop);
}

}  // namespace alignd::cri
