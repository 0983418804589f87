#include <spdlog/spdlog.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cgroup/parent_cpuset.h"
#include "cgroup/pod_quota.h"
#include "cri/claimed_devices.h"
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

// One RestorePod (CRI 0.37): the runtime makes a sandbox and all containers of the list, with the
// resources and devices of the request and the processes of a checkpoint. The containers start with
// StartContainer, as others do. Each container is decided about as at CreateContainer, in the order
// of the list; if one does not fit, the runtime does not get the call. A pod that the runtime does
// not restore has no sandbox, and is released when the call has ended. All steps run on the events
// thread.
// Containers that had ended at the checkpoint are not in the list, plain init containers above all:
// nothing is known of CPUs that could be reused from them.
class RestorePod final : public WaitingCall {
 public:
  explicit RestorePod(const HandlerContext& context) : context_(context) {}

  void OnCancelled() override {
    WaitingCall::OnCancelled();
    context_.allocation.DropCancelled();
  }

  void OnRequest(std::string bytes, Decide decide) override {
    message_bytes_ = bytes.size();
    if (!ReadRequest(bytes, *request_, decide)) return;
    const Result<Done> named = RequireNames();
    if (!named.ok()) return decide(rpc::ToStatus(named.error()));
    handler_ = host::Escaped(request_->runtime_handler());
    context_.reconciler.WhenListed(Next(&RestorePod::Begin, std::move(decide)), cancelled());
  }

  void Begin(bool listed, Decide decide) {
    if (!listed) return decide(NotListed());
    call_.emplace(context_.registry, context_.reconciler, Uid());
    LearnResources(std::move(decide));
  }

  // Of the next container.
  void LearnResources(Decide decide) {
    if (next_ == request_->container_configs_size()) return RequireInParent(std::move(decide));
    Result<allocation::KubeletAllocatedIds> ids =
        mirror::TakeMarkers(*Config().mutable_annotations());
    if (!ids.ok()) return Refuse(ids.error(), decide);
    kubelet_allocated_ = *std::move(ids);
    const auto sandbox = std::make_shared<const v1::PodSandboxConfig>(request_->config());
    context_.resources.Ask(
        {sandbox, std::shared_ptr<const v1::ContainerConfig>(request_, &Config())},
        Next(&RestorePod::FindDevices, std::move(decide)));
  }

  void FindDevices(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    if (!known.ok()) return Refuse(known.error(), decide);
    if (!*known) {
      return Refuse({ErrorCode::kInternal, "no source knows its resources",
                     "report it, with the output of alignctl status"},
                    decide);
    }
    Result<podsource::PodAsk> sized = WithPodLevelSizes(context_, **std::move(known), Name());
    if (!sized.ok()) return Refuse(sized.error(), decide);
    podsource::PodAsk ask = *std::move(sized);
    MarkHandler(context_, handler_, ask.pod);
    const Result<Done> added = AddKubeletAllocated(ask);
    if (!added.ok()) return Refuse(added.error().In(ask.source), decide);
    RequirePartitionHasCpus(context_, CgroupParent(), std::move(ask),
                            Next(&RestorePod::FindClaims, std::move(decide)));
  }

  void FindClaims(Result<podsource::PodAsk> ask, Decide decide) {
    if (!ask.ok()) return Refuse(ask.error(), decide);
    FindClaimed(context_, *std::move(ask), &Config(), Next(&RestorePod::Admit, std::move(decide)));
  }

  void Admit(Result<podsource::PodAsk> found, Decide decide) {
    if (!found.ok()) return Refuse(found.error(), decide);
    podsource::PodAsk& ask = *found;
    allocation::KubeletAllocatedPod kubelet_allocated;
    if (!kubelet_allocated_.empty()) kubelet_allocated = {{Name(), kubelet_allocated_}};
    AdmitPod(context_,
             {.pod = std::move(ask.pod),
              .source = std::move(ask.source),
              .roles_are_concluded = ask.roles_are_concluded,
              .wanted = Name(),
              .memory_in_cri = {.is_annotated = ask.is_annotated},
              .kubelet_allocated = std::move(kubelet_allocated),
              .wait_until = AnswerBy(deadline()),
              .releases_when_refused = true,
              .message_bytes = message_bytes_,
              .cancelled = cancelled()},
             Next(&RestorePod::Inject, std::move(decide)));
  }

  void Inject(allocation::Outcome outcome, Decide decide) {
    if (const auto* error = std::get_if<Error>(&outcome)) return End(rpc::ToStatus(*error), decide);
    if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
      return End(rpc::ToStatus(*refusal), decide);
    }
    admission::Assignment assignment =
        std::move(std::get<allocation::Allocated>(outcome).assignments.at(Name()));
    WithoutLeavingCpus(context_, assignment);
    if (!assignment.devices.empty() && RestoresOtherDevices(context_)) {
      return Refuse(NotRestored("it is restored"), decide);
    }
    const Result<std::vector<std::string>> conflicts = cri::Inject(assignment, Config());
    if (!conflicts.ok()) return End(rpc::ToStatus(conflicts.error()), decide);
    SetMark(context_, {Uid(), Name()}, Config());
    for (const std::string& conflict : *conflicts) {
      static host::LineLimit limit("restored pods that contradict their assignment");
      if (limit.Allow()) spdlog::warn("container {}: {}", Name(), conflict);
    }
    needs_.Add(NeedsOf(context_.node, assignment));
    applied_[Name()] = Config().linux().has_resources() ? assignment.cpuset : CpuSet();
    ++next_;
    LearnResources(std::move(decide));
  }

  // As for CreateContainer. The caller has made the pod's cgroup.
  void RequireInParent(Decide decide) {
    if (needs_.IsEmpty()) return Forward(decide);
    context_.io.Post([this, next = Next(&RestorePod::LiftPodQuota, std::move(decide))] {
      next(cgroup::RequireInParent(context_.cgroups, CgroupParent(), needs_));
    });
  }

  void LiftPodQuota(Result<Done> may_run, Decide decide) {
    if (!may_run.ok()) return End(rpc::ToStatus(may_run.error()), decide);
    if (needs_.exclusive.empty() || !LiftsPodQuota(context_, Uid())) return Forward(decide);
    context_.io.Post([this, next = Next(&RestorePod::LiftedPodQuota, std::move(decide))] {
      next(cgroup::LiftPodQuota(context_.cgroups, CgroupParent(), Uid()));
    });
  }

  void LiftedPodQuota(Result<std::optional<int64_t>> lifted, Decide decide) {
    if (!lifted.ok()) context_.conditions.QuotaNotLifted(Uid(), lifted.error(), PodName());
    if (lifted.ok() && *lifted) {
      spdlog::info("{}", cgroup::LiftedText("pod " + PodName(), **lifted));
    }
    context_.reconciler.GuardPod(Uid(), CgroupParent());
    Forward(decide);
  }

  void OnResponse(const grpc::Status& status, const std::string* bytes) override {
    if (!call_) return;
    v1::RestorePodResponse response;
    const bool restored =
        status.ok() && ReadAnswer(*bytes, response) && !response.pod_sandbox_id().empty();
    bool complete = restored;
    if (restored) {
      context_.registry.AddSandbox(response.pod_sandbox_id(), Uid(), PodName(), handler_,
                                   podsource::PodWithoutContainers(request_->config()).policies);
      for (const v1::RestoredContainer& container : response.restored_containers()) {
        const auto applied = applied_.find(container.name());
        if (applied == applied_.end() || container.container_id().empty()) {
          complete = false;
          continue;
        }
        context_.registry.AddContainer(container.container_id(), {Uid(), container.name()},
                                       applied->second);
        const auto& configs = request_->container_configs();
        const auto config = std::ranges::find(
            configs, container.name(), [](const auto& one) { return one.metadata().name(); });
        if (config != configs.end()) {
          RecordCdiNames(context_, {Uid(), container.name()}, *config);
        }
        applied_.erase(applied);
      }
      context_.reconciler.Nudge();  // the pool may have changed meanwhile
    }
    // The runtime may have made more than it says.
    if (!complete || !applied_.empty()) context_.reconciler.Relist();
    call_.reset();
  }

 private:
  template <typename Argument>
  std::function<void(Argument)> Next(void (RestorePod::*step)(Argument, Decide), Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  Result<Done> RequireNames() const {
    const v1::PodSandboxMetadata& metadata = request_->config().metadata();
    if (metadata.uid().empty()) {
      return Error{ErrorCode::kInvalidArgument, "the request names no pod",
                   "set config.metadata.uid"};
    }
    const Result<Done> checked = RequirePodNames(metadata);
    if (!checked.ok()) return checked;
    std::set<std::string> names;
    for (const v1::ContainerConfig& container : request_->container_configs()) {
      const std::string& name = container.metadata().name();
      if (name.empty()) {
        return Error{ErrorCode::kInvalidArgument, "a container has no name",
                     "set metadata.name in each of container_configs"};
      }
      const Result<Done> text = RequireText("container name", name);
      if (!text.ok()) return text;
      if (names.insert(name).second) continue;
      return Error{ErrorCode::kInvalidArgument, "two containers have the name " + name,
                   "name each of container_configs otherwise"};
    }
    return Done{};
  }

  v1::ContainerConfig& Config() { return *request_->mutable_container_configs(next_); }
  const std::string& Name() const { return request_->container_configs(next_).metadata().name(); }
  const std::string& Uid() const { return request_->config().metadata().uid(); }
  const std::string& CgroupParent() const { return request_->config().linux().cgroup_parent(); }

  // "namespace/name"; the UID if the pod has no name.
  std::string PodName() const {
    const v1::PodSandboxMetadata& metadata = request_->config().metadata();
    return metadata.name().empty() ? Uid() : metadata.namespace_() + "/" + metadata.name();
  }

  Result<Done> AddKubeletAllocated(podsource::PodAsk& ask) const {
    if (kubelet_allocated_.empty()) return Done{};
    ask.source += ", devices from the kubelet's allocation";
    const auto container = std::ranges::find(ask.pod.containers, Name(), &Container::name);
    if (container == ask.pod.containers.end()) return Done{};
    return mirror::Apply(kubelet_allocated_, *container);
  }

  // Where no decision is possible. `alignctl explain` shows it beside the decisions.
  void Refuse(const Error& why, const Decide& decide) {
    const Error error = why.In("container " + Name());
    context_.allocation.NoteFault(podsource::PodWithoutContainers(request_->config()), error);
    End(rpc::ToStatus(error), decide);
  }

  void End(grpc::Status status, const Decide& decide) {
    call_.reset();                       // before the caller has the answer; see PodCall
    context_.reconciler.Release(Uid());  // what earlier containers of the list were assigned
    decide(std::move(status));
  }

  void Forward(const Decide& decide) { decide(request_->SerializeAsString()); }

  const HandlerContext context_;
  // Parsed. Shared with the source of the pod's resources, which reads it on threads of its own.
  const std::shared_ptr<v1::RestorePodRequest> request_ = std::make_shared<v1::RestorePodRequest>();
  size_t message_bytes_ = 0;
  std::string handler_;  // the runtime handler; empty: the runtime's default
  std::optional<PodCall> call_;
  int next_ = 0;                                       // the container that is decided about
  allocation::KubeletAllocatedIds kubelet_allocated_;  // for it; from markers
  cgroup::ParentNeeds needs_;                          // of all containers
  std::map<std::string, CpuSet> applied_;  // the CPU sets that go to the runtime, by container
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeRestorePod(const HandlerContext& context) {
  return std::make_unique<RestorePod>(context);
}

}  // namespace alignd::cri
