#include "cri/forwarder.h"

#include <utility>

#include "cri/forwarder_calls.h"
#include "cri/unary_methods.h"

namespace alignd::cri {
namespace {

class Forwarder final : public grpc::CallbackGenericService {
 public:
  Forwarder(std::shared_ptr<grpc::Channel> backend, HandlerFactory handlers)
      : context_{std::make_shared<grpc::GenericStub>(std::move(backend))},
        handlers_(std::move(handlers)) {}
  Forwarder(const Forwarder&) = delete;
  Forwarder& operator=(const Forwarder&) = delete;
  ~Forwarder() override { context_.count->WaitForZero(); }

  grpc::ServerGenericBidiReactor* CreateReactor(
      grpc::GenericCallbackServerContext* caller) override {
    std::unique_ptr<CallHandler> handler = handlers_(caller->method());
    if (handler != nullptr || IsUnaryMethod(caller->method())) {
      return ForwardUnary(context_, *caller, std::move(handler));
    }
    return ForwardStream(context_, *caller);
  }

 private:
  const ForwarderContext context_;
  const HandlerFactory handlers_;
};

}  // namespace

std::unique_ptr<grpc::CallbackGenericService> MakeForwarder(std::shared_ptr<grpc::Channel> backend,
                                                            HandlerFactory handlers) {
  return std::make_unique<Forwarder>(std::move(backend), std::move(handlers));
}

}  // namespace alignd::cri
