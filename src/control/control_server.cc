#include "control/control_server.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "alignd/control/v1/control.grpc.pb.h"
#include "control/reports.h"
#include "rpc/limits.h"
#include "rpc/unix_socket.h"

namespace alignd::control {
namespace {

constexpr size_t kDefaultLimit = 10;

// The limit of one answer. The oldest decisions beyond it are not sent.
constexpr size_t kMaxAnswerBytes = rpc::kMaxMessageBytes / 2;

}  // namespace

// Synchronous: gRPC runs its methods on threads of this server. An explanation can take long; on
// the threads of the callback API it would delay the answers of device plugins.
class ControlServer::Service final : public v1::Control::Service {
 public:
  Service(std::string version, const admission::Node& node,
          const allocation::AllocationManager& allocation, const reconcile::Conditions& conditions,
          std::function<PodNames()> names, std::function<std::set<ContainerKey>()> reused)
      : version_(std::move(version)),
        node_(node),
        allocation_(allocation),
        conditions_(conditions),
        names_(std::move(names)),
        reused_(std::move(reused)) {}

  grpc::Status GetStatus(grpc::ServerContext* /*context*/, const v1::GetStatusRequest* /*request*/,
                         v1::GetStatusResponse* response) override {
    *response = ReportStatus(version_, node_, *allocation_.snapshot(), names_(),
                             allocation_.decisions(), *allocation_.bindings(), conditions_.Report(),
                             reused_ ? reused_() : std::set<ContainerKey>());
    return grpc::Status::OK;
  }

  grpc::Status Explain(grpc::ServerContext* context, const v1::ExplainRequest* request,
                       v1::ExplainResponse* response) override {
    const size_t limit = request->limit() == 0 ? kDefaultLimit : request->limit();
    size_t bytes = 0;
    for (const auto& decision : allocation_.decisions().Newest(request->pod(), limit)) {
      if (context->IsCancelled()) return grpc::Status::CANCELLED;
      v1::PodDecision message = ReportDecision(node_, *decision);
      bytes += message.ByteSizeLong();
      if (bytes > kMaxAnswerBytes) break;
      *response->add_decisions() = std::move(message);
    }
    return grpc::Status::OK;
  }

 private:
  const std::string version_;
  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  const reconcile::Conditions& conditions_;
  const std::function<PodNames()> names_;
  const std::function<std::set<ContainerKey>()> reused_;
};

Result<std::unique_ptr<ControlServer>> ControlServer::Start(
    const std::string& endpoint, std::string version, const admission::Node& node,
    const allocation::AllocationManager& allocation, const reconcile::Conditions& conditions,
    std::function<PodNames()> names, std::function<std::set<ContainerKey>()> reused) {
  auto service = std::make_unique<Service>(std::move(version), node, allocation, conditions,
                                           std::move(names), std::move(reused));
  grpc::ServerBuilder builder;
  builder.RegisterService(service.get());
  rpc::LimitCallers(builder);
  Result<std::unique_ptr<grpc::Server>> server =
      rpc::Listen(endpoint, builder, rpc::kMaxShortRequestBytes);
  if (!server.ok()) return server.error();
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(service), *std::move(server)));
}

ControlServer::ControlServer(std::unique_ptr<Service> service, std::unique_ptr<grpc::Server> server)
    : service_(std::move(service)), server_(std::move(server)) {}

ControlServer::~ControlServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace alignd::control
