#include "podresources/pod_resources_server.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>

#include "podresources/answers.h"
#include "podresources/v1/podresources.grpc.pb.h"
#include "rpc/grpc_status.h"
#include "rpc/rate_limit.h"
#include "rpc/unix_socket.h"

namespace alignd::podresources {
namespace {

// Source: kubelet pkg/kubelet/apis/podresources/constants.go.
constexpr double kCallsPerSecond = 100;
constexpr int kCallsAtOnce = 10;

}  // namespace

class PodResourcesServer::Service final : public ::v1::PodResourcesLister::Service {
 public:
  Service(const admission::Node& node, const allocation::AllocationManager& allocation,
          const reconcile::ContainerRegistry& registry)
      : node_(node), allocation_(allocation), registry_(registry) {}

  grpc::Status List(grpc::ServerContext* /*context*/,
                    const ::v1::ListPodResourcesRequest* /*request*/,
                    ::v1::ListPodResourcesResponse* response) override {
    if (const grpc::Status allowed = Allow(); !allowed.ok()) return allowed;
    const auto snapshot = allocation_.snapshot();
    for (const reconcile::ContainerRegistry::Pod& pod : registry_.Pods()) {
      *response->add_pod_resources() = Describe(snapshot->state, pod);
    }
    return grpc::Status::OK;
  }

  grpc::Status Get(grpc::ServerContext* /*context*/, const ::v1::GetPodResourcesRequest* request,
                   ::v1::GetPodResourcesResponse* response) override {
    if (const grpc::Status allowed = Allow(); !allowed.ok()) return allowed;
    for (const reconcile::ContainerRegistry::Pod& pod : registry_.Pods()) {
      if (pod.name != request->pod_name() || pod.name_space != request->pod_namespace()) continue;
      *response->mutable_pod_resources() = Describe(allocation_.snapshot()->state, pod);
      return grpc::Status::OK;
    }
    return rpc::ToStatus({ErrorCode::kNotFound, "pod " + request->pod_name() + " in namespace " +
                                                    request->pod_namespace() + " not found"});
  }

  grpc::Status GetAllocatableResources(grpc::ServerContext* /*context*/,
                                       const ::v1::AllocatableResourcesRequest* /*request*/,
                                       ::v1::AllocatableResourcesResponse* response) override {
    if (const grpc::Status allowed = Allow(); !allowed.ok()) return allowed;
    *response = Allocatable(node_, allocation_.snapshot()->state);
    return grpc::Status::OK;
  }

 private:
  // Source: kubelet pkg/kubelet/apis/grpc/ratelimit.go.
  grpc::Status Allow() {
    if (limit_.Allow(rpc::RateLimit::Clock::now())) return grpc::Status::OK;
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"};
  }

  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  const reconcile::ContainerRegistry& registry_;
  rpc::RateLimit limit_{kCallsPerSecond, kCallsAtOnce};
};

Result<std::unique_ptr<PodResourcesServer>> PodResourcesServer::Start(
    const std::string& endpoint, const admission::Node& node,
    const allocation::AllocationManager& allocation, const reconcile::ContainerRegistry& registry) {
  auto service = std::make_unique<Service>(node, allocation, registry);
  grpc::ServerBuilder builder;
  builder.RegisterService(service.get());
  Result<std::unique_ptr<grpc::Server>> server = rpc::Listen(endpoint, builder);
  if (!server.ok()) return server.error();
  return std::unique_ptr<PodResourcesServer>(
      new PodResourcesServer(std::move(service), *std::move(server)));
}

PodResourcesServer::PodResourcesServer(std::unique_ptr<Service> service,
                                       std::unique_ptr<grpc::Server> server)
    : service_(std::move(service)), server_(std::move(server)) {}

PodResourcesServer::~PodResourcesServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace alignd::podresources
