#include "cri/lifecycle.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// A container that ends by itself is seen in the answers to ContainerStatus: a kubelet asks before
// it acts on the end, for example before it creates the container after an init container.
class ContainerStatus final : public proxy::CallHandler {
 public:
  explicit ContainerStatus(const HandlerContext& context) : context_(context) {}

  void OnRequest(std::string bytes, Decide decide) override {
    if (!ReadRequest(bytes, request_, decide)) return;
    id_ = FindId(context_.registry, request_);
    decide(std::move(bytes));
  }

  void OnResponse(const grpc::Status& status, const std::string* bytes) override {
    if (id_ && HasEnded(status, bytes)) RecordContainerEnd(context_, *id_);
  }

 private:
  bool HasEnded(const grpc::Status& status, const std::string* bytes) const {
    if (!status.ok()) return IsNotFound(context_, status, CallersId(request_), *id_);
    v1::ContainerStatusResponse response;
    return ReadAnswer(*bytes, response) && response.status().state() == v1::CONTAINER_EXITED;
  }

  const HandlerContext context_;
  v1::ContainerStatusRequest request_;
  std::optional<std::string> id_;  // nullopt: alignd does not know the container
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeContainerStatus(const HandlerContext& context) {
  return std::make_unique<ContainerStatus>(context);
}

}  // namespace alignd::cri
