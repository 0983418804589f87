#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cgroup/parent_cpuset.h"
#include "cgroup/pod_quota.h"
#include "cri/claimed_devices.h"
#include "cri/ended_init_containers.h"
#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/malformed.h"
#include "cri/pod_level_sizes.h"
#include "cri/system_partition.h"
#include "cri/tracked_call.h"
#include "cri/waiting_call.h"
#include "host/log_event.h"
#include "host/printable.h"
#include "mirror/marker.h"
#include "podsource/cri_sizes.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// One CreateContainer. Its steps are the public methods, in the order in which they happen. All of
// them run on the events thread; between two steps the call waits for the runtime's listing, for
// the source of the pod's resources, for the decision, or for a cgroup file.
class CreateContainer final : public WaitingCall {
 public:
  explicit CreateContainer(const HandlerContext& context) : context_(context) {}

  void OnCancelled() override {
    WaitingCall::OnCancelled();
    context_.allocation.DropCancelled();
  }

  // Before the runtime has been listed, the state files name pods that are gone, and do not name
  // containers that run without an assignment. A decision would be wrong both ways.
  void OnRequest(std::string bytes, Decide decide) override {
    bytes_ = std::move(bytes);
    if (!ReadRequest(bytes_, *request_, decide)) return;
    const Result<Done> named = RequireNamesOfBoth();
    if (!named.ok()) return decide(rpc::ToStatus(named.error()));
    context_.reconciler.WhenListed(Next(&CreateContainer::TakeMarkers, std::move(decide)),
                                   cancelled());
  }

  void TakeMarkers(bool listed, Decide decide) {
    if (!listed) return decide(NotListed());
    const std::string uid = PodUid();
    const Result<Done> known = RequirePod(uid);
    if (!known.ok()) return decide(rpc::ToStatus(known.error()));
    key_ = {uid, request_->config().metadata().name()};
    call_.emplace(context_.registry, context_.reconciler, uid);
    Result<allocation::KubeletAllocatedIds> ids =
        mirror::TakeMarkers(*request_->mutable_config()->mutable_annotations());
    if (!ids.ok()) return Refuse(ids.error(), decide);
    kubelet_allocated_ = *std::move(ids);
    had_mark_ = RemoveMark(*request_->mutable_config());
    LearnResources(std::move(decide));
  }

  void LearnResources(Decide decide) {
    auto sandbox = std::make_shared<v1::PodSandboxConfig>(request_->sandbox_config());
    sandbox->mutable_metadata()->set_uid(key_.pod_uid);
    context_.resources.Ask({std::move(sandbox), std::shared_ptr<const v1::ContainerConfig>(
                                                    request_, &request_->config())},
                           Next(&CreateContainer::FindDevices, std::move(decide)));
  }

  void FindDevices(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    if (!known.ok()) return Refuse(known.error(), decide);
    if (!*known) {
      const Error error{ErrorCode::kInternal,
                        "no source knows the resources of container " + key_.container,
                        "report it, with the output of alignctl status"};
      return Answer(rpc::ToStatus(error), decide);
    }
    Result<podsource::PodAsk> sized =
        WithPodLevelSizes(context_, **std::move(known), key_.container);
    if (!sized.ok()) return Refuse(sized.error(), decide);
    podsource::PodAsk ask = *std::move(sized);
    // The next steps may reduce the pod to one container.
    if (ask.pod.containers.size() > 1) ask.apps = podsource::AppContainers(ask.pod);
    MarkHandler(context_, context_.registry.HandlerOfSandbox(SandboxId()), ask.pod);
    const Result<Done> added = AddKubeletAllocated(ask);
    if (!added.ok()) return Refuse(added.error().In(ask.source), decide);
    RequirePartitionHasCpus(context_, CgroupParent(), std::move(ask),
                            Next(&CreateContainer::FindClaims, std::move(decide)));
  }

  void FindClaims(Result<podsource::PodAsk> ask, Decide decide) {
    if (!ask.ok()) return Refuse(ask.error(), decide);
    FindClaimed(context_, *std::move(ask), &request_->config(),
                Next(&CreateContainer::AddEnded, std::move(decide)));
  }

  void AddEnded(Result<podsource::PodAsk> ask, Decide decide) {
    if (!ask.ok()) return Refuse(ask.error(), decide);
    AddEndedInitContainers(context_, *request_, *std::move(ask),
                           Next(&CreateContainer::Admit, std::move(decide)));
  }

  void Admit(podsource::PodAsk ask, Decide decide) {
    allocation::KubeletAllocatedPod kubelet_allocated;
    if (!kubelet_allocated_.empty()) kubelet_allocated = {{key_.container, kubelet_allocated_}};
    AdmitPod(context_,
             {.pod = std::move(ask.pod),
              .source = std::move(ask.source),
              .roles_are_concluded = ask.roles_are_concluded,
              .wanted = key_.container,
              .memory_in_cri = {.limit = MemoryLimit(),
                                .is_estimate = ask.is_estimate,
                                .is_annotated = ask.is_annotated},
              .kubelet_allocated = std::move(kubelet_allocated),
              .wait_until = AnswerBy(deadline()),
              .message_bytes = bytes_.size(),
              .cancelled = cancelled()},
             Next(&CreateContainer::Decided, std::move(decide)));
  }

  void Decided(allocation::Outcome outcome, Decide decide) {
    if (const auto* error = std::get_if<Error>(&outcome)) {
      return Answer(rpc::ToStatus(*error), decide);
    }
    if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
      ReportRefusedResize(context_, key_, *refusal);
      return Answer(rpc::ToStatus(*refusal), decide);
    }
    context_.conditions.ResizeSettled(key_);
    assignment_ =
        std::move(std::get<allocation::Allocated>(outcome).assignments.at(key_.container));
    FindCheckpoint(std::move(decide));
  }

  // A container that is restored must not run with other devices than those that it is assigned,
  // which may be none.
  void FindCheckpoint(Decide decide) {
    const bool has_devices = !context_.allocation.snapshot()->state.devices.resources.empty();
    if (!has_devices || !RestoresOtherDevices(context_)) return RequireInParent(std::move(decide));
    const std::string& image = request_->config().image().image();
    if (image.starts_with('/')) return RefuseCheckpoint(true, std::move(decide));  // an archive
    context_.runtime.IsCheckpoint(image,
                                  Next(&CreateContainer::RefuseCheckpoint, std::move(decide)));
  }

  void RefuseCheckpoint(Result<bool> is_checkpoint, Decide decide) {
    if (!is_checkpoint.ok()) return Refuse(is_checkpoint.error(), decide);
    if (!*is_checkpoint) return RequireInParent(std::move(decide));
    const std::string image = host::Escaped(request_->config().image().image());
    Refuse(NotRestored("image " + image + " is a checkpoint"), decide);
  }

  // The kernel could run the container on other CPUs, whatever its own cpuset says. Cgroup files
  // may block.
  void RequireInParent(Decide decide) {
    const cgroup::ParentNeeds needs = NeedsOf(context_.node, assignment_);
    if (needs.IsEmpty()) return Inject(std::move(decide));
    context_.io.Post([this, needs, next = Next(&CreateContainer::LiftPodQuota, std::move(decide))] {
      next(cgroup::RequireInParent(context_.cgroups, CgroupParent(), needs));
    });
  }

  // A container with exclusive CPUs would be throttled by its pod's quota. A write to a cgroup file
  // may block.
  void LiftPodQuota(Result<Done> may_run, Decide decide) {
    if (!may_run.ok()) {
      context_.reconciler.LookForOfflineCpus();  // perhaps that is why
      return Refuse(may_run.error(), decide);
    }
    if (assignment_.exclusive.empty()) return Inject(std::move(decide));
    if (!LiftsPodQuota(context_, key_.pod_uid)) {
      if (context_.lifts_pod_quotas) context_.reconciler.GuardPod(key_.pod_uid, CgroupParent());
      return Inject(std::move(decide));
    }
    context_.io.Post([this, next = Next(&CreateContainer::LiftedPodQuota, std::move(decide))] {
      next(cgroup::LiftPodQuota(context_.cgroups, CgroupParent(), key_.pod_uid));
    });
  }

  void LiftedPodQuota(Result<std::optional<int64_t>> lifted, Decide decide) {
    const std::string name = PodName();
    if (!lifted.ok()) context_.conditions.QuotaNotLifted(key_.pod_uid, lifted.error(), name);
    if (lifted.ok() && *lifted) {
      spdlog::info("{}", cgroup::LiftedText("pod " + name, **lifted));
    }
    context_.reconciler.GuardPod(key_.pod_uid, CgroupParent());
    Inject(std::move(decide));
  }

  void Inject(Decide decide) {
    WithoutLeavingCpus(context_, assignment_);
    if (IsEmpty(assignment_)) {
      if (kubelet_allocated_.empty() && !had_mark_) return ForwardUnchanged(decide);
      return Forward(decide);  // without the markers, and without a mark that alignd did not write
    }
    const Result<std::vector<std::string>> conflicts =
        cri::Inject(assignment_, *request_->mutable_config());
    if (!conflicts.ok()) return Answer(rpc::ToStatus(conflicts.error()), decide);
    SetMark(context_, key_, *request_->mutable_config());
    for (const std::string& conflict : *conflicts) {
      static host::LineLimit limit("requests that contradict the assignment");
      if (limit.Allow()) spdlog::warn("container {}: {}", key_.container, conflict);
    }
    if (request_->config().linux().has_resources()) applied_ = assignment_.cpuset;
    Forward(decide);
  }

  void OnResponse(const grpc::Status& status, const std::string* bytes) override {
    if (!call_) return;
    v1::CreateContainerResponse response;
    if (status.ok() && ReadAnswer(*bytes, response) && !response.container_id().empty()) {
      context_.registry.AddContainer(response.container_id(), key_, applied_,
                                     !assignment_.KeptFromOthers().empty());
      RecordCdiNames(context_, key_, request_->config());
      context_.reconciler.Nudge();  // the pool may have changed meanwhile
    } else {
      context_.reconciler.Relist();  // the runtime may have created the container all the same
    }
    call_.reset();
  }

 private:
  template <typename Argument>
  std::function<void(Argument)> Next(void (CreateContainer::*step)(Argument, Decide),
                                     Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  Result<Done> RequireNamesOfBoth() const {
    const Result<Done> checked = RequirePodNames(request_->sandbox_config().metadata());
    if (!checked.ok()) return checked;
    const std::string& name = request_->config().metadata().name();
    if (!name.empty()) return RequireText("container name", name);
    return Error{ErrorCode::kInvalidArgument, "the container has no name",
                 "set config.metadata.name"};
  }

  static Result<Done> RequirePod(const std::string& uid) {
    if (!uid.empty()) return RequireText("pod UID", uid);
    return Error{ErrorCode::kInvalidArgument, "the request names no pod sandbox",
                 "set pod_sandbox_id"};
  }

  // The whole id, if the sandbox is known.
  std::string SandboxId() const {
    return context_.registry.SandboxNamed(request_->pod_sandbox_id())
        .value_or(request_->pod_sandbox_id());
  }

  // The UID that the sandbox was made with goes before the one in this request: listings show the
  // former.
  std::string PodUid() const {
    const std::string id = SandboxId();
    return context_.registry.PodOfSandbox(id).value_or(
        reconcile::PodUidOr(request_->sandbox_config().metadata().uid(), id));
  }

  const std::string& CgroupParent() const {
    return request_->sandbox_config().linux().cgroup_parent();
  }

  // 0: none.
  uint64_t MemoryLimit() const {
    const int64_t limit = request_->config().linux().resources().memory_limit_in_bytes();
    return static_cast<uint64_t>(std::max<int64_t>(limit, 0));
  }

  // "namespace/name"; the UID if the pod has no name.
  std::string PodName() const {
    const v1::PodSandboxMetadata& metadata = request_->sandbox_config().metadata();
    return metadata.name().empty() ? key_.pod_uid : metadata.namespace_() + "/" + metadata.name();
  }

  // Adds the devices that the kubelet allocated for the container to the resources of its pod.
  Result<Done> AddKubeletAllocated(podsource::PodAsk& ask) const {
    for (Container& container : ask.pod.containers) {
      if (container.name != key_.container) continue;
      const Result<Done> applied = mirror::Apply(kubelet_allocated_, container);
      if (!applied.ok()) return applied;
    }
    if (!kubelet_allocated_.empty()) ask.source += ", devices from the kubelet's allocation";
    return Done{};
  }

  // Where no decision is possible. `alignctl explain` shows it beside the decisions.
  void Refuse(const Error& why, const Decide& decide) {
    v1::PodSandboxConfig sandbox = request_->sandbox_config();
    sandbox.mutable_metadata()->set_uid(key_.pod_uid);
    context_.allocation.NoteFault(podsource::PodWithoutContainers(sandbox),
                                  why.In("container " + key_.container));
    Answer(rpc::ToStatus(why), decide);
  }

  void Answer(grpc::Status status, const Decide& decide) {
    call_.reset();  // before the caller has the answer; see PodCall
    decide(std::move(status));
  }

  void ForwardUnchanged(const Decide& decide) { decide(std::move(bytes_)); }
  void Forward(const Decide& decide) { decide(request_->SerializeAsString()); }

  const HandlerContext context_;
  std::string bytes_;  // the request as it came
  // Parsed. Shared with the source of the pod's resources, which reads it on threads of its own.
  const std::shared_ptr<v1::CreateContainerRequest> request_ =
      std::make_shared<v1::CreateContainerRequest>();
  ContainerKey key_;
  std::optional<PodCall> call_;                        // from the moment when the pod is known
  allocation::KubeletAllocatedIds kubelet_allocated_;  // from markers, which the runtime never sees
  bool had_mark_ = false;                              // the caller's request
  admission::Assignment assignment_;
  CpuSet applied_;  // the CPU set in the request that goes to the runtime; empty: none
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeCreateContainer(const HandlerContext& context) {
  return std::make_unique<CreateContainer>(context);
}

}  // namespace alignd::cri
