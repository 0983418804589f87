#include "cri/lifecycle.h"

namespace alignd::cri {
namespace {

void RecordStop(const HandlerContext& context, const std::string& id) {
  context.registry.SandboxStopped(id);
  context.reconciler.PodStopped();
}

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeStopPodSandbox(const HandlerContext& context) {
  return std::make_unique<LifecycleHandler<runtime::v1::StopPodSandboxRequest>>(context,
                                                                                &RecordStop);
}

}  // namespace alignd::cri
