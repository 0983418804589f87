#include <spdlog/spdlog.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cgroup/pod_quota.h"
#include "cri/ended_init_containers.h"
#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/message_bytes.h"
#include "cri/tracked_call.h"
#include "mirror/marker.h"
#include "podsource/cri_sizes.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

class CreateContainerHandler final : public proxy::CallHandler {
 public:
  explicit CreateContainerHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    auto create = std::make_shared<Create>();
    if (!Parse(bytes, create->request)) {
      decide(std::move(bytes));  // the runtime knows what to say of it
      return;
    }
    // Going by the state files alone would hold up pods by what others held that are gone, and by
    // what still runs although it holds nothing.
    context_.reconciler.WhenListed(
        [this, create, bytes = std::move(bytes), decide = std::move(decide)](bool listed) {
          if (listed) {
            Handle(create, bytes, decide);
          } else {
            decide(rpc::ToStatus(Error{ErrorCode::kUnavailable,
                                       "alignd does not know yet what the runtime runs",
                                       "retry; see alignd's log if this lasts"}));
          }
        });
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* bytes) override {
    v1::CreateContainerResponse response;
    if (!create_) return;
    if (status.ok() && Parse(*bytes, response)) {
      context_.registry.AddContainer(response.container_id(), create_->key, create_->told);
    } else {
      context_.reconciler.Relist();  // it may be there all the same
    }
    create_->call->End();
  }

 private:
  // Shared with the callbacks, which may come after the caller has gone.
  struct Create {
    v1::CreateContainerRequest request;
    ContainerKey key;
    allocation::KubeletAllocatedIds counted;  // from markers, which the runtime is not to see
    CpuSet told;
    std::shared_ptr<PodCall> call;
  };

  void Handle(const std::shared_ptr<Create>& create, const grpc::ByteBuffer& bytes,
              const Decide& decide) {
    const std::string uid = PodUid(create->request);
    if (uid.empty()) {
      decide(bytes);  // no sandbox: the runtime refuses it
      return;
    }
    create->key = {uid, create->request.config().metadata().name()};
    Result<allocation::KubeletAllocatedIds> counted =
        mirror::TakeMarkers(*create->request.mutable_config()->mutable_annotations());
    if (!counted.ok()) {
      Refuse(context_, *create, counted.error(), decide);
      return;
    }
    create->counted = *std::move(counted);
    create->call = std::make_shared<PodCall>(context_.registry, context_.reconciler, uid);
    create_ = create;
    auto sandbox = std::make_shared<v1::PodSandboxConfig>(create->request.sandbox_config());
    sandbox->mutable_metadata()->set_uid(uid);
    context_.resources.Ask({std::move(sandbox), std::shared_ptr<const v1::ContainerConfig>(
                                                    create, &create->request.config())},
                           [context = context_, create, bytes,
                            decide](const Result<std::optional<podsource::PodAsk>>& known) {
                             Admit(context, create, known, bytes, decide);
                           });
  }

  // What the sandbox was made with goes before what is stated now: listings show it, too.
  std::string PodUid(const v1::CreateContainerRequest& request) const {
    const std::string id =
        context_.registry.SandboxNamed(request.pod_sandbox_id()).value_or(request.pod_sandbox_id());
    return context_.registry.PodOfSandbox(id).value_or(
        reconcile::PodUidOr(request.sandbox_config().metadata().uid(), id));
  }

  static void Admit(const HandlerContext& context, const std::shared_ptr<Create>& create,
                    const Result<std::optional<podsource::PodAsk>>& known,
                    const grpc::ByteBuffer& bytes, const Decide& decide) {
    if (!known.ok()) {
      Refuse(context, *create, known.error(), decide);
      return;
    }
    if (!*known) {
      decide(rpc::ToStatus(Error{ErrorCode::kInternal, "nobody knows what container " +
                                                           create->key.container + " asks for"}));
      return;
    }
    podsource::PodAsk ask = **known;
    const Result<allocation::KubeletAllocatedPod> counted =
        AddKubeletAllocated(context, *create, ask);
    if (!counted.ok()) {
      Refuse(context, *create, counted.error().In(ask.source), decide);
      return;
    }
    AddEndedInitContainers(
        context, create->request, std::move(ask),
        [context, create, counted = *counted, bytes, decide](const podsource::PodAsk& whole) {
          AdmitReleasingStopped(
              context, whole, create->key.container, counted,
              [context, create, bytes, decide](const allocation::Outcome& outcome) {
                LiftPodQuota(context, *create, outcome);
                Decision answer = Answer(*create, bytes, outcome);
                if (std::holds_alternative<grpc::Status>(answer)) create->call->End();
                decide(std::move(answer));
              });
        });
  }

  // What cannot be decided about: whoever asks why later on finds it beside the decisions.
  static void Refuse(const HandlerContext& context, const Create& create, const Error& why,
                     const Decide& decide) {
    v1::PodSandboxConfig sandbox = create.request.sandbox_config();
    sandbox.mutable_metadata()->set_uid(create.key.pod_uid);
    context.allocation.NoteFault(podsource::PodWithoutContainers(sandbox),
                                 why.In("container " + create.key.container));
    decide(rpc::ToStatus(why));
  }

  // Adds what the kubelet counted for the container to what is known of it.
  static Result<allocation::KubeletAllocatedPod> AddKubeletAllocated(const HandlerContext& context,
                                                                     const Create& create,
                                                                     podsource::PodAsk& ask) {
    for (Container& container : ask.pod.containers) {
      if (container.name != create.key.container) continue;
      const Result<Done> applied = mirror::Apply(create.counted, container);
      if (!applied.ok()) return applied.error();
      const Result<Done> all = RequireKubeletAllocated(context, create, container);
      if (!all.ok()) return all.error();
    }
    if (create.counted.empty()) return allocation::KubeletAllocatedPod();
    ask.source += ", devices from the kubelet's allocation";
    return allocation::KubeletAllocatedPod{{create.key.container, create.counted}};
  }

  // Where the kubelet counts the devices, nobody gets one that it did not count for him: it would
  // count it for somebody else. What is held from before is held.
  static Result<Done> RequireKubeletAllocated(const HandlerContext& context, const Create& create,
                                              const Container& container) {
    if (!context.mirrors_devices) return Done{};
    const auto snapshot = context.allocation.snapshot();
    const devicemanager::DeviceState& devices = snapshot->state.devices;
    for (const auto& [resource, limit] : container.resources.limits) {
      const auto offered = devices.resources.find(resource);
      // One whose plugin has not registered may be the kubelet's own.
      if (offered == devices.resources.end() || !offered->second.registered) continue;
      if (limit.IsZero() || create.counted.contains(resource)) continue;
      if (devices.Find(create.key, resource) != nullptr) continue;
      return Error{ErrorCode::kInvalidArgument,
                   container.name + ": limits." + resource + " is " +
                       std::to_string(limit.Value()) + ", but the kubelet allocated none for it",
                   "ask for devices in the pod's own resources, not by annotation; a pod that "
                   "does, and that the kubelet admitted before it knew of the resource, or with a "
                   "plugin that is registered with it beside alignd, must be deleted"};
    }
    return Done{};
  }

  // A container with exclusive CPUs would be throttled by its pod's quota.
  static void LiftPodQuota(const HandlerContext& context, const Create& create,
                           const allocation::Outcome& outcome) {
    const auto* granted = std::get_if<allocation::Allocated>(&outcome);
    if (context.pod_quotas == nullptr || granted == nullptr) return;
    if (granted->assignments.at(create.key.container).exclusive.empty()) return;
    const Result<Done> lifted = cgroup::LiftPodQuota(
        *context.pod_quotas, create.request.sandbox_config().linux().cgroup_parent(),
        create.key.pod_uid);
    if (!lifted.ok()) context.conditions.QuotaNotLifted(create.key.pod_uid, lifted.error());
  }

  static Decision Answer(Create& create, const grpc::ByteBuffer& bytes,
                         const allocation::Outcome& outcome) {
    if (const auto* error = std::get_if<Error>(&outcome)) return rpc::ToStatus(*error);
    if (const auto* refusal = std::get_if<Refusal>(&outcome)) return rpc::ToStatus(*refusal);
    const admission::Assignment& grant =
        std::get<allocation::Allocated>(outcome).assignments.at(create.key.container);
    if (IsEmpty(grant)) return create.counted.empty() ? bytes : Serialize(create.request);
    const Result<std::vector<std::string>> conflicts =
        Inject(grant, *create.request.mutable_config());
    if (!conflicts.ok()) return rpc::ToStatus(conflicts.error());
    for (const std::string& conflict : *conflicts) {
      spdlog::warn("container {}: {}", create.key.container, conflict);
    }
    if (create.request.config().linux().has_resources()) create.told = grant.cpuset;
    return Serialize(create.request);
  }

  const HandlerContext context_;
  std::shared_ptr<Create> create_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeCreateContainer(const HandlerContext& context) {
  return std::make_unique<CreateContainerHandler>(context);
}

}  // namespace alignd::cri
