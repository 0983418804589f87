#include "simulator/pods_api.h"

#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "kubernetes/v1/pod.pb.h"
#include "pods/v1alpha1/pods.grpc.pb.h"
#include "rpc/rate_limit.h"
#include "simulator/grpc_socket.h"
#include "simulator/hanging_reactor.h"
#include "sync/mutex.h"

namespace alignd::simulator {
namespace {

namespace k8s = kubernetes::v1;

void SetResources(const Resources& resources, k8s::ResourceRequirements& message) {
  for (const auto& [name, amount] : resources.limits) {
    (*message.mutable_limits())[name].set_string(amount.ToString());
  }
  for (const auto& [name, amount] : resources.requests) {
    (*message.mutable_requests())[name].set_string(amount.ToString());
  }
}

}  // namespace

std::string ToV1Pod(const Pod& pod) {
  k8s::Pod message;
  message.mutable_metadata()->set_uid(pod.uid);
  message.mutable_metadata()->set_generation(1);
  message.mutable_metadata()->set_name(pod.name);
  message.mutable_metadata()->set_namespace_(pod.name_space);
  for (const Container& container : pod.containers) {
    k8s::Container& entry = container.kind == ContainerKind::kApp
                                ? *message.mutable_spec()->add_containers()
                                : *message.mutable_spec()->add_init_containers();
    entry.set_name(container.name);
    if (container.kind == ContainerKind::kSidecar) entry.set_restart_policy("Always");
    SetResources(container.resources, *entry.mutable_resources());
  }
  if (pod.pod_level) SetResources(*pod.pod_level, *message.mutable_spec()->mutable_resources());
  message.mutable_status()->set_qos_class(std::string(ToString(QosOf(pod))));
  return message.SerializeAsString();
}

class PodsApi::Service final : public ::v1alpha1::Pods::CallbackService {
 public:
  grpc::ServerUnaryReactor* GetPod(grpc::CallbackServerContext* context,
                                   const ::v1alpha1::GetPodRequest* request,
                                   ::v1alpha1::GetPodResponse* response) override {
    const MutexLock lock(mutex_);
    asked_.push_back(request->poduid());
    if (manner_ == Manner::kHang) return new HangingReactor;
    grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
    const auto pod = pods_.find(request->poduid());
    if (limit_ && !limit_->Allow(rpc::RateLimit::Clock::now())) {
      reactor->Finish({grpc::StatusCode::RESOURCE_EXHAUSTED, "rejected by rate limit"});
    } else if (stage_ == Stage::kGateIsOff) {
      reactor->Finish({grpc::StatusCode::FAILED_PRECONDITION, "PodsAPI feature gate is disabled"});
    } else if (stage_ == Stage::kNotReady) {
      reactor->Finish({grpc::StatusCode::FAILED_PRECONDITION, "kubelet is not ready"});
    } else if (!failure_.ok()) {
      reactor->Finish(failure_);
    } else if (manner_ == Manner::kFail) {
      reactor->Finish({grpc::StatusCode::UNKNOWN, "simulated failure"});
    } else if (pod == pods_.end()) {
      reactor->Finish(
          {grpc::StatusCode::NOT_FOUND, "pod with UID " + request->poduid() + " not found"});
    } else {
      if (manner_ == Manner::kAnswer) response->set_pod(Shown(pod->second));
      reactor->Finish(grpc::Status::OK);
    }
    return reactor;
  }

  void SetPodBytes(const std::string& uid, std::string bytes) {
    const MutexLock lock(mutex_);
    pods_[uid] = std::move(bytes);
  }
  void SetManner(Manner manner) {
    const MutexLock lock(mutex_);
    manner_ = manner;
  }
  void SetStage(Stage stage) {
    const MutexLock lock(mutex_);
    stage_ = stage;
  }
  void LimitRate() {
    // Source: kubelet pkg/kubelet/apis/pods, the same limits as those of pod resources.
    constexpr double kPerSecond = 100;
    constexpr int kBurst = 10;
    const MutexLock lock(mutex_);
    limit_ = std::make_unique<rpc::RateLimit>(kPerSecond, kBurst);
  }
  void ShowServersStatus() {
    const MutexLock lock(mutex_);
    shows_servers_status_ = true;
  }
  void AddExtendedClaim(const std::string& uid, const std::string& container,
                        const std::string& resource) {
    const MutexLock lock(mutex_);
    k8s::Pod pod;
    pod.ParseFromString(pods_[uid]);
    k8s::ContainerExtendedResourceRequest& mapping =
        *pod.mutable_status()->mutable_extended_resource_claim_status()->add_request_mappings();
    mapping.set_container_name(container);
    mapping.set_resource_name(resource);
    pods_[uid] = pod.SerializeAsString();
  }
  void AddEphemeral(const std::string& uid, const std::string& container) {
    const MutexLock lock(mutex_);
    k8s::Pod pod;
    pod.ParseFromString(pods_[uid]);
    pod.mutable_spec()->add_ephemeral_containers()->mutable_common()->set_name(container);
    pods_[uid] = pod.SerializeAsString();
  }
  void SetGeneration(const std::string& uid, int64_t generation) {
    const MutexLock lock(mutex_);
    k8s::Pod pod;
    pod.ParseFromString(pods_[uid]);
    pod.mutable_metadata()->set_generation(generation);
    pods_[uid] = pod.SerializeAsString();
  }
  void AddManagedRequests(const std::string& uid, const std::string& subresource) {
    const MutexLock lock(mutex_);
    k8s::Pod pod;
    pod.ParseFromString(pods_[uid]);
    k8s::ManagedFieldsEntry& entry = *pod.mutable_metadata()->add_managed_fields();
    entry.set_manager("manager");
    entry.set_operation("Update");
    entry.set_subresource(subresource);
    nlohmann::json fields;
    const auto add = [&](const std::string& list, const auto& containers) {
      for (const k8s::Container& container : containers) {
        for (const auto& [resource, amount] : container.resources().requests()) {
          fields["f:spec"][list][R"(k:{"name":")" + container.name() + "\"}"]["f:resources"]
                ["f:requests"]["f:" + resource] = nlohmann::json::object();
        }
      }
    };
    add("f:initContainers", pod.spec().init_containers());
    add("f:containers", pod.spec().containers());
    entry.mutable_fields_v1()->set_raw(fields.dump());
    pods_[uid] = pod.SerializeAsString();
  }
  void SetFailure(grpc::Status status) {
    const MutexLock lock(mutex_);
    failure_ = std::move(status);
  }
  std::vector<std::string> asked() const {
    const MutexLock lock(mutex_);
    return asked_;
  }

 private:
  // What the answer has of the API server's pod.
  std::string Shown(const std::string& bytes) const REQUIRES(mutex_) {
    k8s::Pod pod;
    const bool is_pod = pod.ParseFromString(bytes);
    if (!is_pod || shows_servers_status_) return bytes;
    pod.mutable_status()->clear_extended_resource_claim_status();
    return pod.SerializeAsString();
  }

  mutable Mutex mutex_;
  std::map<std::string, std::string> pods_ GUARDED_BY(mutex_);  // by UID
  std::vector<std::string> asked_ GUARDED_BY(mutex_);
  Manner manner_ GUARDED_BY(mutex_) = Manner::kAnswer;
  Stage stage_ GUARDED_BY(mutex_) = Stage::kReady;
  std::unique_ptr<rpc::RateLimit> limit_ GUARDED_BY(mutex_);  // null: none
  grpc::Status failure_ GUARDED_BY(mutex_);
  bool shows_servers_status_ GUARDED_BY(mutex_) = false;
};

Result<std::unique_ptr<PodsApi>> PodsApi::Start(const std::string& endpoint) {
  std::unique_ptr<PodsApi> api(new PodsApi(std::make_unique<Service>()));
  grpc::ServerBuilder builder;
  builder.RegisterService(api->service_.get());
  auto server = simulator::Listen(endpoint, builder);
  if (!server.ok()) return server.error();
  api->server_ = *std::move(server);
  return api;
}

PodsApi::PodsApi(std::unique_ptr<Service> service) : service_(std::move(service)) {}

PodsApi::~PodsApi() {
  if (server_) server_->Shutdown(std::chrono::system_clock::now());
}

void PodsApi::SetPodBytes(const std::string& uid, std::string bytes) {
  service_->SetPodBytes(uid, std::move(bytes));
}
void PodsApi::SetStage(Stage stage) { service_->SetStage(stage); }
void PodsApi::LimitRate() { service_->LimitRate(); }
void PodsApi::ShowServersStatus() { service_->ShowServersStatus(); }
void PodsApi::AddExtendedClaim(const std::string& uid, const std::string& container,
                               const std::string& resource) {
  service_->AddExtendedClaim(uid, container, resource);
}
void PodsApi::AddEphemeral(const std::string& uid, const std::string& container) {
  service_->AddEphemeral(uid, container);
}
void PodsApi::AddManagedRequests(const std::string& uid, const std::string& subresource) {
  service_->AddManagedRequests(uid, subresource);
}

void PodsApi::SetGeneration(const std::string& uid, int64_t generation) {
  service_->SetGeneration(uid, generation);
}
void PodsApi::SetManner(Manner manner) { service_->SetManner(manner); }
void PodsApi::SetFailure(grpc::Status status) { service_->SetFailure(std::move(status)); }
std::vector<std::string> PodsApi::asked() const { return service_->asked(); }

}  // namespace alignd::simulator
