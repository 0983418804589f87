#include "podresources/pod_resources_server.h"

#include <grpcpp/server_builder.h>

#include <chrono>
#include <utility>
#include <vector>

#include "host/printable.h"
#include "podresources/answers.h"
#include "podresources/v1/podresources.grpc.pb.h"
#include "podresources/v1alpha1/podresources.grpc.pb.h"
#include "rpc/limits.h"
#include "rpc/rate_limit.h"
#include "rpc/unix_socket.h"

namespace alignd::podresources {
namespace {

// Source: kubelet pkg/kubelet/apis/podresources/constants.go.
constexpr double kCallsPerSecond = 100;
constexpr int kCallsAtOnce = 10;

using Pod = reconcile::ContainerRegistry::Pod;

}  // namespace

// Thread-safe.
class PodResourcesServer::Services {
 public:
  Services(const admission::Node& node, const allocation::AllocationManager& allocation,
           const reconcile::ContainerRegistry& registry)
      : node_(node), allocation_(allocation), registry_(registry) {}

  void Register(grpc::ServerBuilder& builder) {
    builder.RegisterService(&v1_);
    builder.RegisterService(&v1alpha1_);
  }

 private:
  class V1 final : public ::v1::PodResourcesLister::Service {
   public:
    explicit V1(Services& shared) : shared_(shared) {}

    grpc::Status List(grpc::ServerContext* /*context*/,
                      const ::v1::ListPodResourcesRequest* /*request*/,
                      ::v1::ListPodResourcesResponse* response) override {
      if (const grpc::Status allowed = shared_.Allow(); !allowed.ok()) return allowed;
      const auto snapshot = shared_.allocation_.snapshot();
      for (const Pod& pod : shared_.ListedPods(snapshot->state)) {
        *response->add_pod_resources() = Describe(snapshot->state, pod);
      }
      return grpc::Status::OK;
    }

    grpc::Status Get(grpc::ServerContext* /*context*/, const ::v1::GetPodResourcesRequest* request,
                     ::v1::GetPodResourcesResponse* response) override {
      if (const grpc::Status allowed = shared_.Allow(); !allowed.ok()) return allowed;
      const auto snapshot = shared_.allocation_.snapshot();
      for (const Pod& pod : shared_.ListedPods(snapshot->state)) {
        if (pod.name != request->pod_name() || pod.name_space != request->pod_namespace()) continue;
        *response->mutable_pod_resources() = Describe(snapshot->state, pod);
        return grpc::Status::OK;
      }
      // The kubelet's text.
      return {grpc::StatusCode::NOT_FOUND,
              host::Printable("pod " + request->pod_name() + " in namespace " +
                              request->pod_namespace() + " not found")};
    }

    grpc::Status GetAllocatableResources(grpc::ServerContext* /*context*/,
                                         const ::v1::AllocatableResourcesRequest* /*request*/,
                                         ::v1::AllocatableResourcesResponse* response) override {
      if (const grpc::Status allowed = shared_.Allow(); !allowed.ok()) return allowed;
      *response = Allocatable(shared_.node_, shared_.allocation_.snapshot()->state);
      return grpc::Status::OK;
    }

   private:
    Services& shared_;
  };

  class V1Alpha1 final : public ::v1alpha1::PodResourcesLister::Service {
   public:
    explicit V1Alpha1(Services& shared) : shared_(shared) {}

    grpc::Status List(grpc::ServerContext* /*context*/,
                      const ::v1alpha1::ListPodResourcesRequest* /*request*/,
                      ::v1alpha1::ListPodResourcesResponse* response) override {
      if (const grpc::Status allowed = shared_.Allow(); !allowed.ok()) return allowed;
      const auto snapshot = shared_.allocation_.snapshot();
      for (const Pod& pod : shared_.ListedPods(snapshot->state)) {
        *response->add_pod_resources() = DescribeDevices(snapshot->state, pod);
      }
      return grpc::Status::OK;
    }

   private:
    Services& shared_;
  };

  std::vector<Pod> ListedPods(const admission::NodeState& state) const {
    return WithHolders(state, registry_, [this](const std::string& pod_uid) {
      return allocation_.InitContainers(pod_uid);
    });
  }

  // Source: kubelet pkg/kubelet/apis/grpc/ratelimit.go.
  grpc::Status Allow() {
    if (limit_.Allow(rpc::RateLimit::Clock::now())) return grpc::Status::OK;
    return {grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"};
  }

  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  const reconcile::ContainerRegistry& registry_;
  rpc::RateLimit limit_{kCallsPerSecond, kCallsAtOnce};
  V1 v1_{*this};
  V1Alpha1 v1alpha1_{*this};
};

Result<std::unique_ptr<PodResourcesServer>> PodResourcesServer::Start(
    const std::string& endpoint, const admission::Node& node,
    const allocation::AllocationManager& allocation, const reconcile::ContainerRegistry& registry) {
  auto services = std::make_unique<Services>(node, allocation, registry);
  grpc::ServerBuilder builder;
  services->Register(builder);
  rpc::LimitCallers(builder);
  Result<std::unique_ptr<grpc::Server>> server =
      rpc::Listen(endpoint, builder, rpc::kMaxShortRequestBytes);
  if (!server.ok()) return server.error();
  return std::unique_ptr<PodResourcesServer>(
      new PodResourcesServer(std::move(services), *std::move(server)));
}

PodResourcesServer::PodResourcesServer(std::unique_ptr<Services> services,
                                       std::unique_ptr<grpc::Server> server)
    : services_(std::move(services)), server_(std::move(server)) {}

PodResourcesServer::~PodResourcesServer() { server_->Shutdown(std::chrono::system_clock::now()); }

}  // namespace alignd::podresources
