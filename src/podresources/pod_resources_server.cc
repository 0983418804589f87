#include "podresources/pod_resources_server.h"

#include <spdlog/spdlog.h>

#include <functional>
#include <utility>
#include <vector>

#include "host/log_event.h"
#include "host/printable.h"
#include "podresources/answers.h"
#include "podresources/v1/podresources.pb.h"
#include "podresources/v1alpha1/podresources.pb.h"
#include "rpc/rate_limit.h"
#include "service/unary_server.h"
#include "sync/task_queue.h"

namespace alignd::podresources {
namespace {

// Source: kubelet pkg/kubelet/apis/podresources/constants.go.
constexpr double kCallsPerSecond = 100;
constexpr int kCallsAtOnce = 10;

using Pod = reconcile::ContainerRegistry::Pod;

}  // namespace

// Its methods run on a thread of their own.
class PodResourcesServer::Services {
 public:
  Services(const admission::Node& node, const allocation::AllocationManager& allocation,
           const reconcile::ContainerRegistry& registry, ReadClaims claims)
      : node_(node), allocation_(allocation), registry_(registry), claims_(std::move(claims)) {}

  service::Methods Methods() {
    const std::string v1 = "/v1.PodResourcesLister/";
    return {{v1 + "List", Limited<::v1::ListPodResourcesRequest, ::v1::ListPodResourcesResponse>(
                              [this](const auto&, auto& response) { return List(response); })},
            {v1 + "Get",
             Limited<::v1::GetPodResourcesRequest, ::v1::GetPodResourcesResponse>(
                 [this](const auto& request, auto& response) { return Get(request, response); })},
            {v1 + "GetAllocatableResources",
             Limited<::v1::AllocatableResourcesRequest, ::v1::AllocatableResourcesResponse>(
                 [this](const auto&, auto& response) {
                   response = Allocatable(node_, allocation_.snapshot()->state);
                   return grpc::Status();
                 })},
            {"/v1alpha1.PodResourcesLister/List",
             Limited<::v1alpha1::ListPodResourcesRequest, ::v1alpha1::ListPodResourcesResponse>(
                 [this](const auto&, auto& response) { return ListDevices(response); })}};
  }

 private:
  // Source of the limit and its text: kubelet pkg/kubelet/apis/grpc/ratelimit.go.
  template <typename Request, typename Response>
  service::Method Limited(std::function<grpc::Status(const Request&, Response&)> compute) {
    service::Method computed = service::OnQueue(
        queue_, service::Computed<Request, Response>(
                    [compute = std::move(compute)](const Request& request, Response& response,
                                                   const service::Call&) {
                      return compute(request, response);
                    }));
    return [this, computed = std::move(computed)](service::Call call) {
      if (limit_.Allow(rpc::RateLimit::Clock::now())) return computed(std::move(call));
      call.answer(grpc::Status(grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"));
    };
  }

  grpc::Status List(::v1::ListPodResourcesResponse& response) const {
    const auto snapshot = allocation_.snapshot();
    const dra::ContainerClaims claims = Claims();
    for (const Pod& pod : ListedPods(snapshot->state)) {
      *response.add_pod_resources() = Describe(snapshot->state, pod, claims);
    }
    return grpc::Status();
  }

  grpc::Status Get(const ::v1::GetPodResourcesRequest& request,
                   ::v1::GetPodResourcesResponse& response) const {
    const auto snapshot = allocation_.snapshot();
    for (const Pod& pod : ListedPods(snapshot->state)) {
      if (pod.name != request.pod_name() || pod.name_space != request.pod_namespace()) continue;
      *response.mutable_pod_resources() = Describe(snapshot->state, pod, Claims());
      return grpc::Status();
    }
    // The kubelet's text.
    return {grpc::StatusCode::NOT_FOUND,
            host::Printable("pod " + request.pod_name() + " in namespace " +
                            request.pod_namespace() + " not found")};
  }

  grpc::Status ListDevices(::v1alpha1::ListPodResourcesResponse& response) const {
    const auto snapshot = allocation_.snapshot();
    for (const Pod& pod : ListedPods(snapshot->state)) {
      *response.add_pod_resources() = DescribeDevices(snapshot->state, pod);
    }
    return grpc::Status();
  }

  dra::ContainerClaims Claims() const {
    Result<dra::ContainerClaims> claims = claims_();
    if (claims.ok()) return *std::move(claims);
    static host::LineLimit limit("claims that are missing in the pod resources service");
    if (limit.Allow()) {
      spdlog::warn("pod resources service: {}; its answers have no claims", claims.error().Text());
    }
    return dra::ContainerClaims({}, nullptr);
  }

  std::vector<Pod> ListedPods(const admission::NodeState& state) const {
    return WithHolders(state, registry_, [this](const std::string& pod_uid) {
      return allocation_.InitContainers(pod_uid);
    });
  }

  const admission::Node& node_;
  const allocation::AllocationManager& allocation_;
  const reconcile::ContainerRegistry& registry_;
  const ReadClaims claims_;
  rpc::RateLimit limit_{kCallsPerSecond, kCallsAtOnce};
  TaskQueue queue_{"pod-resources", TaskQueue::kLinger};
};

Result<std::unique_ptr<PodResourcesServer>> PodResourcesServer::Start(
    std::shared_ptr<host::EventLoop> loop, const std::string& endpoint, const admission::Node& node,
    const allocation::AllocationManager& allocation, const reconcile::ContainerRegistry& registry,
    ReadClaims claims) {
  auto services = std::make_unique<Services>(node, allocation, registry, std::move(claims));
  auto server = service::UnaryServer::Start(std::move(loop), endpoint, services->Methods());
  if (!server.ok()) return server.error();
  return std::unique_ptr<PodResourcesServer>(
      new PodResourcesServer(std::move(services), *std::move(server)));
}

PodResourcesServer::PodResourcesServer(std::unique_ptr<Services> services,
                                       std::unique_ptr<service::UnaryServer> server)
    : services_(std::move(services)), server_(std::move(server)) {}

PodResourcesServer::~PodResourcesServer() = default;

}  // namespace alignd::podresources
