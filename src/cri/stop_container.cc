#include "cri/lifecycle.h"

namespace alignd::cri {

std::unique_ptr<proxy::CallHandler> MakeStopContainer(const HandlerContext& context) {
  return std::make_unique<LifecycleHandler<runtime::v1::StopContainerRequest>>(context,
                                                                               &RecordContainerEnd);
}

}  // namespace alignd::cri
