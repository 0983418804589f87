#include "cri/lifecycle.h"

namespace alignd::cri {
namespace {

void RecordRemoval(const HandlerContext& context, const std::string& id) {
  const std::optional<std::string> gone_pod = context.registry.RemoveSandbox(id);
  if (gone_pod) {
    context.allocation.SandboxStopped(*gone_pod, /*is_removed=*/true);
    context.reconciler.Release(*gone_pod);
  } else {
    context.reconciler.PodStopped();  // it may have been the pod's last running sandbox
  }
}

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeRemovePodSandbox(const HandlerContext& context) {
  return std::make_unique<LifecycleHandler<runtime::v1::RemovePodSandboxRequest>>(context,
                                                                                  &RecordRemoval);
}

}  // namespace alignd::cri
