#include "control/control_server.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <utility>

#include "alignd/control/v1/control.grpc.pb.h"
#include "control/reports.h"
#include "control/wire.h"
#include "rpc/unix_socket.h"

namespace alignd::control {
namespace {

constexpr size_t kDefaultLimit = 10;

// What may be sent in one answer; the newest decisions come first, the rest is left off.
constexpr size_t kMaxAnswerBytes = rpc::kMaxMessageBytes / 2;

}  // namespace

class ControlServer::Service final : public v1::Control::CallbackService {
 public:
  Service(std::string version, const admission::Node& node,
          const allocation::AllocationManager& allocation, const reconcile::Conditions& conditions,
          std::function<PodNames()> names)
      : version_(std::move(version)),
        node_(node),
        allocation_(allocation),
        conditions_(conditions),
        names_(std::move(names)) {}

  grpc::ServerUnaryReactor* GetStatus(grpc::CallbackServerContext* context,
                                      const v1::GetStatusRequest* /*request*/,
                                      v1::GetStatusResponse* response) override {
    StatusReport report = ReportStatus(version_, node_, *allocation_.snapshot(), names_(),
                                       allocation_.decisions(), *allocation_.bindings());
    report.conditions = ReportConditions(conditions_.Report());
    *response = ToWire(report);
    return Finish(context);
  }

  grpc::ServerUnaryReactor* Explain(grpc::CallbackServerContext* context,
                                    const v1::ExplainRequest* request,
                                    v1::ExplainResponse* response) override {
    const size_t limit = request->limit() == 0 ? kDefaultLimit : request->limit();
    size_t bytes = 0;
    for (const auto& decision : allocation_.decisions().Newest(request->pod(), limit)) {
      v1::PodDecision message = ToWire(ReportDecision(node_, *decision));
      bytes += message.ByteSizeLong();
      if (bytes > kMaxAnswerBytes) break;
      *response->add_decisions() = std::move(message);
    }
    return Finish(context);
  }

 private:
  static grpc::ServerUnaryReactor* Finish(grpc::CallbackServerContext* context) {
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }

  const std::string version_;
  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  const reconcile::Conditions& conditions_;
  const std::function<PodNames()> names_;
};

Result<std::unique_ptr<ControlServer>> ControlServer::Start(
    const std::string& endpoint, std::string version, const admission::Node& node,
    const allocation::AllocationManager& allocation, const reconcile::Conditions& conditions,
    std::function<PodNames()> names) {
  auto service =
      std::make_unique<Service>(std::move(version), node, allocation, conditions, std::move(names));
  grpc::ServerBuilder builder;
  builder.RegisterService(service.get());
  Result<std::unique_ptr<grpc::Server>> server = rpc::Listen(endpoint, builder);
  if (!server.ok()) return server.error();
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(service), *std::move(server)));
}

ControlServer::ControlServer(std::unique_ptr<Service> service, std::unique_ptr<grpc::Server> server)
    : service_(std::move(service)), server_(std::move(server)) {}

ControlServer::~ControlServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace alignd::control
