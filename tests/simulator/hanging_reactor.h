// A unary call that is answered only when its caller cancels.
#pragma once

#include <grpcpp/support/server_callback.h>

namespace alignd::simulator {

// Deletes itself.
class HangingReactor final : public grpc::ServerUnaryReactor {
 public:
  void OnCancel() override { Finish(grpc::Status::CANCELLED); }
  void OnDone() override { delete this; }
};

}  // namespace alignd::simulator
