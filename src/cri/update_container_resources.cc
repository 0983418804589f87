#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "alignd/admission/own_policy.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/pod/cri_sizes.h"
#include "alignd/pod/pod.h"
#include "allocation/memory_resize.h"
#include "allocation/requested_resize.h"
#include "cri/claimed_devices.h"
#include "cri/find_named.h"
#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/malformed.h"
#include "cri/requested_sizes.h"
#include "cri/system_partition.h"
#include "cri/tracked_call.h"
#include "cri/waiting_call.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

bool IsWhole(std::optional<int64_t> millis) {
  return millis && *millis > 0 && *millis % kMillisPerWholeCpu == 0;
}

// One UpdateContainerResources. Its steps stand in the order in which they happen; all run on the
// events thread.
class UpdateContainerResources final : public WaitingCall {
 public:
  explicit UpdateContainerResources(const HandlerContext& context) : context_(context) {}

  void OnRequest(std::string bytes, Decide decide) override {
    bytes_ = std::move(bytes);
    if (!ReadRequest(bytes_, request_, decide)) return;
    FindNamed(context_,
              {.what = "container " + request_.container_id(),
               .find = [this] { return FindContainer(); },
               .sets_assigned = SetsAssigned(context_.node, request_.linux()),
               .deadline = deadline(),
               .cancelled = cancelled(),
               .next =
                   [this](bool found, const Decide& next) {
                     found ? CompareMemory(next) : ForwardUnchanged(next);
                   }},
              std::move(decide));
  }

  // The limit of a container of a Guaranteed pod is the amount that is booked, unless a
  // ResourceClaim with memory adds to it (KEP-5517): then the container has had that limit since it
  // was created.
  void CompareMemory(const Decide& decide) {
    const std::optional<int64_t> requested = RequestedMemory(request_.linux());
    const std::optional<uint64_t> assigned =
        allocation::AssignedMemory(context_.allocation.snapshot()->state, key_);
    if (!context_.node.memory || !requested || !assigned ||
        (*requested > 0 && static_cast<uint64_t>(*requested) == *assigned)) {
      return CompareCpus(decide);
    }
    context_.runtime.FindSpec(id_, Next(&UpdateContainerResources::RefuseOtherMemory, decide));
  }

  // A limit that cannot be read is no reason to let the container have more than it is assigned.
  void RefuseOtherMemory(Result<reconcile::ContainerSpec> spec, Decide decide) {
    if (!spec.ok()) return decide(rpc::ToStatus(spec.error()));
    const int64_t requested = *RequestedMemory(request_.linux());
    if (spec->memory_limit == requested) return CompareCpus(decide);
    const std::optional<uint64_t> limit =
        requested > 0 ? std::optional(static_cast<uint64_t>(requested)) : std::nullopt;
    Refuse(allocation::RefusedMemoryResize(context_.allocation.snapshot()->state, key_, PodName(),
                                           limit),
           decide);
  }

  void CompareCpus(const Decide& decide) {
    const admission::Assignment assignment = CurrentAssignment();
    const int64_t shares = request_.linux().cpu_shares();
    // Shares have a maximum, above which they say nothing.
    if (assignment.share && shares > 0 && shares != SharesFromMillis(assignment.share->millis)) {
      const std::optional<Refusal> refusal = allocation::RefuseOtherShare(
          PodName(), key_.container, *assignment.share, MillisFromShares(shares));
      if (refusal) return Refuse(*refusal, decide);
    }
    const CpuSet exclusive = assignment.exclusive;
    const std::optional<int64_t> requested = RequestedMillis(request_.linux());
    if (!exclusive.empty() && !KeepsCount(request_.linux(), exclusive.Count())) {
      millis_ = *requested;
      return Resize(exclusive, decide);
    }
    if (!exclusive.empty()) return AwaitCpus(decide);
    if (!context_.node.cpu || !IsWhole(requested)) return Forward(decide);
    millis_ = *requested;
    context_.runtime.FindSpec(id_, Next(&UpdateContainerResources::AskSource, std::move(decide)));
  }

  void Resize(const CpuSet& exclusive, const Decide& decide) {
    if (SaysOnlyAtLeast(request_.linux())) {
      return Refuse(
          allocation::RefusedResize(PodName(), key_.container,
                                    "asks for " + allocation::CpusText(millis_) +
                                        " or more: without a CFS quota, CRI shows no larger number",
                                    "delete the pod and create it with the CPUs that it needs"),
          decide);
    }
    using allocation::CpuResizes;
    const CpuResizes resizes = context_.allocation.allowed_resizes();
    const bool to_shared = !IsWhole(millis_);
    const bool may_share = resizes == CpuResizes::kAll;
    const Pod pod = PodWithName();
    if (to_shared && may_share && admission::MustHaveExclusiveCpus(context_.node, pod)) {
      return Refuse(allocation::RefusedSharedByLabel(pod, key_.container, exclusive,
                                                     allocation::CpusText(millis_)),
                    decide);
    }
    if (resizes == CpuResizes::kNone || (to_shared && !may_share)) {
      return Refuse(allocation::ResizeRefusal(PodName(), key_.container, exclusive,
                                              allocation::CpusText(millis_), resizes),
                    decide);
    }
    if (to_shared && !SaysAllSizes(request_.linux())) {
      return RefuseIncompleteSizes(exclusive, decide);
    }
    if (to_shared && AsksForOneNode()) {
      return Refuse(allocation::RefusedShareOnOneNode(PodName(), key_.container, exclusive,
                                                      allocation::CpusText(millis_)),
                    decide);
    }
    RefusePodLevel(decide);
  }

  // With the feature gate PodLevelResourceManagers, a pod with pod-level resources may have
  // containers with exclusive CPUs of the node. These are not resized. One that has its CPUs as a
  // whole is recognised by its assignment.
  void RefusePodLevel(const Decide& decide) {
    const bool is_whole = context_.allocation.snapshot()->state.cpu.pods.contains(key_.pod_uid);
    if (is_whole || !PodLevelResourceManagersOn(context_.node.config)) return Allocate(decide);
    if (const auto has = context_.allocation.HasPodLevelResources(key_.pod_uid)) {
      return ResizeOrdinary(*has, decide);
    }
    auto sandbox = std::make_shared<v1::PodSandboxConfig>();
    sandbox->mutable_metadata()->set_uid(key_.pod_uid);
    context_.resources.Ask({std::move(sandbox), nullptr},
                           Next(&UpdateContainerResources::PodLevelKnown, decide));
  }

  void PodLevelKnown(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    if (!known.ok()) return ResizeOrdinary(std::nullopt, decide);
    ResizeOrdinary(*known ? std::optional(HasPodLevelResources((*known)->pod))
                          : context_.allocation.AnnotatedPodLevel(key_.pod_uid),
                   decide);
  }

  void ResizeOrdinary(std::optional<bool> has_pod_level, const Decide& decide) {
    if (has_pod_level == false) return Allocate(decide);
    Refuse(
        allocation::RefusedPodLevelResize(PodName(), key_.container, CurrentAssignment().exclusive,
                                          allocation::CpusText(millis_),
                                          /*is_known=*/has_pod_level.has_value()),
        decide);
  }

  void Allocate(const Decide& decide) {
    const bool grows = millis_ > CurrentAssignment().exclusive.Count() * kMillisPerWholeCpu;
    if (!grows) return ResizePod(PodWithName(), decide);
    FindClaimedOfPod(context_, PodWithName(), {key_.container},
                     Next(&UpdateContainerResources::ResizePod, decide));
  }

  void ResizePod(Result<Pod> pod, Decide decide) {
    if (!pod.ok()) return decide(rpc::ToStatus(pod.error()));
    const int64_t count = IsWhole(millis_) ? millis_ / kMillisPerWholeCpu : 0;
    context_.allocation.Resize(*std::move(pod), key_.container, count,
                               Next(&UpdateContainerResources::Resized, std::move(decide)));
  }

  // The new set is on the disk and published. Whatever ends this call from here on, the container
  // keeps it: the kubelet repeats the call, which then asks for what the container has.
  void Resized(allocation::ResizeOutcome outcome, Decide decide) {
    if (const auto* const refusal = std::get_if<Refusal>(&outcome)) return Refuse(*refusal, decide);
    if (const auto* const error = std::get_if<Error>(&outcome)) {
      return decide(rpc::ToStatus(*error));
    }
    context_.reconciler.ResizeAccepted(key_.pod_uid);
    // Its pod has been released meanwhile, and what it has now is released, too.
    if (!context_.registry.KeyOf(id_)) context_.reconciler.PodStopped();
    if (!cgroup_parent_.empty()) context_.reconciler.GuardPod(key_.pod_uid, cgroup_parent_);
    AwaitCpus(decide);
  }

  // The request gets the CPUs that the container is assigned now. If these are more than those on
  // which it is, all other containers leave them first: a resize was made by this call, or by one
  // that failed later, perhaps before a restart of alignd.
  void AwaitCpus(const Decide& decide) {
    awaited_ = CurrentAssignment().exclusive;
    if (!MayGainCpus(awaited_)) return Forward(decide);
    context_.reconciler.BeforeStart(id_, Next(&UpdateContainerResources::OthersHaveLeft, decide));
  }

  void OthersHaveLeft(Result<Done> safe, Decide decide) {
    if (!safe.ok()) return decide(rpc::ToStatus(safe.error()));
    Forward(decide);
  }

  // In a Guaranteed pod, a whole number of CPUs is exclusive. There are exceptions, in which a
  // container has a whole number and no exclusive CPUs: it was created before alignd was there, or
  // its pod is not pinned in spite of its class. All of them keep their number, also if a runtime
  // does not report it. If the runtime or the source fails, the caller repeats the update: without
  // an answer, a resize would be lost.
  void AskSource(Result<reconcile::ContainerSpec> spec, Decide decide) {
    if (!spec.ok() && spec.error().code != ErrorCode::kNotFound) {
      return decide(rpc::ToStatus(spec.error()));
    }
    // Of a container that a resize has moved to shared CPUs, the runtime may not have heard yet.
    const bool is_same = spec.ok() && RequestedMillisOf(*spec) == millis_ &&
                         !context_.allocation.snapshot()->state.cpu.WasShared(key_);
    if (!spec.ok() || is_same) return Forward(decide);
    cgroup_parent_ = spec->cgroup.substr(0, spec->cgroup.rfind('/'));
    has_limits_ = HasLimits(*spec);
    context_.resources.Ask(Question(),
                           Next(&UpdateContainerResources::MakeExclusive, std::move(decide)));
  }

  void MakeExclusive(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    if (!known.ok()) return decide(rpc::ToStatus(known.error()));
    if (!*known) return Forward(decide);
    Pod& pod = (*known)->pod;  // of its sandbox, the question had the UID alone
    pod.name_space = PodWithName().name_space;
    AddPolicies(context_, pod);
    MarkHandler(context_, context_.registry.HandlerOfPod(key_.pod_uid), pod);
    if (!WantsExclusive(pod)) return Forward(decide);
    // In a Guaranteed pod, each container that the pod is admitted with has limits.
    if (!has_limits_ && !context_.allocation.snapshot()->state.cpu.WasShared(key_)) {
      return Refuse(allocation::RefusedEphemeral(PodName(), key_.container, millis_), decide);
    }
    if (context_.allocation.allowed_resizes() != allocation::CpuResizes::kAll) {
      return Refuse(allocation::RefusedFirstCpus(PodName(), key_.container, millis_), decide);
    }
    if (!SaysAllSizes(request_.linux())) return RefuseIncompleteSizes({}, decide);
    FindPartitionLack(context_, cgroup_parent_, pod, {key_.container},
                      Next(&UpdateContainerResources::FirstCpusAreThere, decide));
  }

  void FirstCpusAreThere(Result<std::optional<PartitionLack>> lack, Decide decide) {
    if (!lack.ok()) return decide(rpc::ToStatus(lack.error()));
    if (*lack) {
      return Refuse(
          allocation::RefusedResize(PodName(), key_.container, (*lack)->fault, (*lack)->remedy),
          decide);
    }
    RefusePodLevel(decide);
  }

  // The call begins before the assignment is read that it sets: from here on, no container that is
  // assigned CPUs starts on those on which this call may put the container. If the assignment
  // changes before the runtime handles this call, the end of the call has the new CPU set applied;
  // so it has if the runtime refuses the call.
  void Forward(const Decide& decide) {
    admission::Assignment assignment = CurrentAssignment();
    if (!awaited_.Contains(assignment.exclusive)) return AwaitCpus(decide);  // resized once more
    call_.emplace(context_.registry, context_.reconciler, id_, /*changes_cpus=*/true,
                  assignment.KeptFromOthers());
    for (;;) {
      admission::Assignment now = CurrentAssignment();
      const bool is_same = now.KeptFromOthers() == assignment.KeptFromOthers();
      assignment = std::move(now);  // another one's shared pool may have changed
      if (is_same) break;
      if (!awaited_.Contains(assignment.exclusive)) {
        call_.reset();
        return AwaitCpus(decide);
      }
      call_->Sets(assignment.KeptFromOthers());
    }
    if (RequestedMillis(request_.linux())) context_.conditions.ResizeSettled(key_);
    if (IsEmpty(assignment)) return ForwardUnchanged(decide);
    if (HasCpuSet(request_.linux()) && !assignment.cpuset.empty()) {
      ReportCallersCpuSet(context_, "UpdateContainerResources");
    }
    KeepAssignment(assignment, *request_.mutable_linux());
    decide(request_.SerializeAsString());
  }

  void OnResponse(const grpc::Status&, const std::string*) override { call_.reset(); }

 private:
  template <typename Argument>
  std::function<void(Argument)> Next(void (UpdateContainerResources::*step)(Argument, Decide),
                                     Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  // Whether alignd knows the container that the request names.
  bool FindContainer() {
    id_ = context_.registry.ContainerNamed(request_.container_id()).value_or("");
    const std::optional<ContainerKey> key = context_.registry.KeyOf(id_);
    if (key) key_ = *key;
    return key.has_value();
  }

  // namespace/name; the UID if the name is not known.
  std::string PodName() const {
    const std::string name = context_.registry.PodName(key_.pod_uid);
    return name.empty() ? key_.pod_uid : name;
  }

  // With its name and its policies.
  Pod PodWithName() const {
    Pod pod = NamedPod(context_, key_.pod_uid);
    AddPolicies(context_, pod);
    return pod;
  }

  void Refuse(const Refusal& refusal, const Decide& decide) {
    decide(RefuseInPlaceResize(context_, key_, refusal));
  }

  void RefuseIncompleteSizes(const CpuSet& exclusive, const Decide& decide) {
    Refuse(allocation::RefusedIncompleteSizes(PodName(), key_.container, exclusive,
                                              allocation::CpusText(millis_)),
           decide);
  }

  // Only of a container that was resized: others never come onto further CPUs.
  bool MayGainCpus(const CpuSet& exclusive) const {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const CpuSet* const assigned = snapshot->state.cpu.Find(key_);
    if (assigned == nullptr || exclusive == snapshot->state.cpu.OriginalOf(key_)) return false;
    if (snapshot->state.cpu.WasShared(key_)) return true;  // with others on the same CPUs
    const std::vector<reconcile::ContainerRegistry::Footprint> footprints =
        context_.registry.Footprints();
    const auto now =
        std::ranges::find(footprints, id_, &reconcile::ContainerRegistry::Footprint::id);
    return now != footprints.end() && !now->cpuset.Contains(exclusive);  // empty: anywhere
  }

  // As if the container were created with its new sizes.
  podsource::Question Question() const {
    auto sandbox = std::make_shared<v1::PodSandboxConfig>();
    sandbox->mutable_metadata()->set_uid(key_.pod_uid);
    sandbox->mutable_linux()->set_cgroup_parent(cgroup_parent_);
    auto container = std::make_shared<v1::ContainerConfig>();
    container->mutable_metadata()->set_name(key_.container);
    *container->mutable_linux()->mutable_resources() = request_.linux();
    return {std::move(sandbox), std::move(container)};
  }

  bool WantsExclusive(const Pod& pod) const {
    const auto container = std::ranges::find(pod.containers, key_.container, &Container::name);
    return container != pod.containers.end() && ExclusiveCpus(pod, *container) > 0;
  }

  bool AsksForOneNode() const {
    const Pod pod = PodWithName();
    Container container;
    container.name = key_.container;
    return admission::AsksForOneNode(context_.node, pod, container);
  }

  admission::Assignment CurrentAssignment() const { return AssignmentNow(context_, key_); }

  void ForwardUnchanged(const Decide& decide) { decide(std::move(bytes_)); }

  const HandlerContext context_;
  std::string bytes_;  // the request as it came
  v1::UpdateContainerResourcesRequest request_;
  std::string id_;  // the whole id of the container
  ContainerKey key_;
  int64_t millis_ = 0;  // requested
  // Of the container; known if it asks for its first exclusive CPUs.
  std::string cgroup_parent_;
  bool has_limits_ = true;
  // The exclusive CPUs that the container may be put on: it is on them, or all others have left.
  CpuSet awaited_;
  std::optional<ContainerCall> call_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeUpdateContainerResources(const HandlerContext& context) {
  return std::make_unique<UpdateContainerResources>(context);
}

}  // namespace alignd::cri
