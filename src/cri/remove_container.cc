#include "cri/lifecycle.h"

namespace alignd::cri {

std::unique_ptr<proxy::CallHandler> MakeRemoveContainer(const HandlerContext& context) {
  return std::make_unique<LifecycleHandler<runtime::v1::RemoveContainerRequest>>(
      context, &RecordContainerEnd);
}

}  // namespace alignd::cri
