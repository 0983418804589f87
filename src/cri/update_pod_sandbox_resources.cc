#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "alignd/admission/own_policy.h"
#include "alignd/admission/resize.h"
#include "alignd/config/feature_gates.h"
#include "alignd/pod/cri_agreement.h"
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
#include "cri/waiting_call.h"
#include "podsource/cri_sizes.h"
#include "podsource/resource_source.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// The sizes of the whole pod. The kubelet writes them to the pod's cgroup itself: see
// cgroup/pod_quota.h. Sets of CPUs and of memory nodes are each container's own.
class UpdatePodSandboxResources final : public WaitingCall {
 public:
  explicit UpdatePodSandboxResources(const HandlerContext& context) : context_(context) {}

  void OnRequest(std::string bytes, Decide decide) override {
    if (!ReadRequest(bytes, request_, decide)) return;
    bytes_ = std::move(bytes);
    FindNamed(
        context_,
        {.what = "sandbox " + request_.pod_sandbox_id(),
         .find = [this] { return FindSandbox(); },
         .sets_assigned = SetsAssigned(context_.node, request_.resources()),
         .deadline = deadline(),
         .cancelled = cancelled(),
         .next = [this](bool found,
                        const Decide& next) { found ? AskSizes(next) : next(std::move(bytes_)); }},
        std::move(decide));
  }

  // Before a pod grows, the kubelet makes this call, and changes nothing if it fails. So a resize
  // of exclusive CPUs or of assigned memory that is not possible is refused here:
  // UpdateContainerResources would come when the pod's cgroup has its new size. The request has no
  // container; the pod's source has.
  // Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction.
  void AskSizes(const Decide& decide) {
    if (const std::optional<Refusal> refused = RefuseWhole()) {
      return decide(RefuseInPlaceResize(context_, {pod_uid_, ""}, *refused));
    }
    context_.conditions.ResizeSettled({pod_uid_, ""});  // of the pod as a whole
    if (!MayResize()) return Forward(decide);
    auto sandbox = std::make_shared<v1::PodSandboxConfig>();
    sandbox->mutable_metadata()->set_uid(pod_uid_);
    context_.resources.Ask({std::move(sandbox), nullptr},
                           Next(&UpdatePodSandboxResources::TryResize, decide));
  }

  // If the source does not know the pod, UpdateContainerResources decides.
  void TryResize(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    if (!known.ok() || !*known) return Forward(decide);
    Pod& pod = (*known)->pod;
    AddPolicies(context_, pod);
    MarkHandler(context_, context_.registry.HandlerOfPod(pod_uid_), pod);
    pod_ = std::move(pod);
    if (!IsAsked()) return Forward(decide);
    if (request_.resources().memory_limit_in_bytes() == 0) return FindGrowing(decide);
    CompareMemory(decide);
  }

  // From container number `compared_` on. As in UpdateContainerResources, the limit that a
  // container has in the runtime is no resize.
  void CompareMemory(const Decide& decide) {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    for (; compared_ < pod_.containers.size(); ++compared_) {
      const std::string& name = pod_.containers[compared_].name;
      const std::optional<Refusal> why =
          allocation::RefuseMemoryResize(context_.node, snapshot->state, pod_, name);
      if (!why) continue;
      other_memory_ = {name, *why};
      const std::string id = IdOf(name);
      if (id.empty()) return Refuse(other_memory_, decide);
      return context_.runtime.FindSpec(id,
                                       Next(&UpdatePodSandboxResources::RefuseOtherMemory, decide));
    }
    FindGrowing(decide);
  }

  void RefuseOtherMemory(Result<reconcile::ContainerSpec> spec, Decide decide) {
    const int64_t asked = Amount(pod_.containers[compared_].resources.limits, "memory");
    if (!spec.ok() || spec->memory_limit != asked) return Refuse(other_memory_, decide);
    ++compared_;
    CompareMemory(decide);
  }

  // Containers of the shared pool that ask for a whole number of CPUs. The numbers that they have
  // show whether that is a resize: see UpdateContainerResources, which decides where that is not
  // known.
  void FindGrowing(const Decide& decide) {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    for (const Container& container : pod_.containers) {
      const bool is_shared = snapshot->state.cpu.Find({pod_uid_, container.name}) == nullptr;
      if (is_shared && ExclusiveCpus(pod_, container) > 0) unclear_.push_back(&container);
    }
    CompareNext(decide);
  }

  void CompareNext(const Decide& decide) {
    while (!unclear_.empty() && IdOf(unclear_.back()->name).empty()) unclear_.pop_back();
    if (unclear_.empty()) return Try(decide);
    context_.runtime.FindSpec(IdOf(unclear_.back()->name),
                              Next(&UpdatePodSandboxResources::Compare, decide));
  }

  void Compare(Result<reconcile::ContainerSpec> spec, Decide decide) {
    const Container& container = *unclear_.back();
    unclear_.pop_back();
    const int64_t millis = ExclusiveCpus(pod_, container) * kMillisPerWholeCpu;
    // Of one that a resize has moved to shared CPUs, the runtime may not have heard yet.
    const bool was_shared =
        context_.allocation.snapshot()->state.cpu.WasShared({pod_uid_, container.name});
    if (spec.ok() && (was_shared || RequestedMillisOf(*spec).value_or(millis) != millis)) {
      growing_.insert(container.name);
      cgroup_parent_ = spec->cgroup.substr(0, spec->cgroup.rfind('/'));
    }
    CompareNext(decide);
  }

  void Try(const Decide& decide) {
    if (const std::optional<RefusedContainer> impossible = FirstImpossible(pod_)) {
      return Refuse(*impossible, decide);
    }
    if (growing_.empty()) return FindDevices(decide);
    FindPartitionLack(context_, cgroup_parent_, pod_, growing_,
                      Next(&UpdatePodSandboxResources::FirstCpusAreThere, decide));
  }

  void FirstCpusAreThere(Result<std::optional<PartitionLack>> lack, Decide decide) {
    if (!lack.ok()) return decide(rpc::ToStatus(lack.error()));
    if (!*lack) return FindDevices(decide);
    Refusal why = allocation::RefusedResize(allocation::NameOrUid(NamedPod(context_, pod_uid_)),
                                            (*lack)->container, (*lack)->fault, (*lack)->remedy);
    Refuse({(*lack)->container, std::move(why)}, decide);
  }

  void FindDevices(const Decide& decide) {
    Pod asking = NamedPod(context_, pod_uid_);
    AddPolicies(context_, asking);
    const std::set<std::string> growing = Growing();
    if (growing.empty()) return TryWithDevices(std::move(asking), decide);
    FindClaimedOfPod(context_, std::move(asking), growing,
                     Next(&UpdatePodSandboxResources::TryWithDevices, decide));
  }

  void TryWithDevices(Result<Pod> asking, Decide decide) {
    if (!asking.ok()) return decide(rpc::ToStatus(asking.error()));
    const std::optional<RefusedContainer> refused = FirstRefused(pod_, *asking);
    refused ? Refuse(*refused, decide) : Forward(decide);
  }

  void Forward(const Decide& decide) {
    decide(KeepAssignments() ? request_.SerializeAsString() : std::move(bytes_));
  }

  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  // Whether alignd knows the sandbox that the request names.
  bool FindSandbox() {
    const std::optional<std::string> id = context_.registry.SandboxNamed(request_.pod_sandbox_id());
    const std::optional<std::string> pod_uid =
        id ? context_.registry.PodOfSandbox(*id) : std::nullopt;
    pod_uid_ = pod_uid.value_or("");
    return pod_uid.has_value();
  }

  // Whether this call can be about the sizes that the source says. The Pods API says those that the
  // pod is to have, also while the kubelet makes an earlier resize, or cannot make this one. The
  // sizes may contain the pod's overhead, and what claims add is no other resize.
  bool IsAsked() const {
    v1::LinuxContainerResources asked;
    asked.set_cpu_shares(request_.resources().cpu_shares());
    asked.set_memory_limit_in_bytes(request_.resources().memory_limit_in_bytes());
    if (IsAllocated(asked)) return true;
    const auto without = [](int64_t total, int64_t overhead) {
      return overhead > 0 && overhead < total ? total - overhead : total;
    };
    const v1::LinuxContainerResources& overhead = request_.overhead();
    asked.set_cpu_shares(without(asked.cpu_shares(), overhead.cpu_shares()));
    asked.set_memory_limit_in_bytes(
        without(asked.memory_limit_in_bytes(), overhead.memory_limit_in_bytes()));
    return IsAllocated(asked);
  }

  bool IsAllocated(const v1::LinuxContainerResources& sizes) const {
    const bool claims_add_sizes = DraNodeAllocatableResourcesOn(context_.node.config);
    const CriSizes shown = podsource::SizesIn(sizes);
    return RequireKubeletAllocated(pod_, shown, "source").ok() &&
           (claims_add_sizes || RequireNoMoreAllocated(pod_, shown, "source").ok());
  }

  struct RefusedContainer {
    std::string name;
    Refusal why;
  };

  void Refuse(const RefusedContainer& refused, const Decide& decide) {
    decide(RefuseInPlaceResize(context_, {pod_uid_, refused.name}, refused.why));
  }

  // Of a container of the pod; empty: it does not run.
  std::string IdOf(const std::string& container) const {
    const ContainerKey key{pod_uid_, container};
    for (const admission::RunningContainer& running : context_.registry.Containers()) {
      if (running.key == key) return running.id;
    }
    return "";
  }

  template <typename Argument>
  std::function<void(Argument)> Next(void (UpdatePodSandboxResources::*step)(Argument, Decide),
                                     Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  bool MayResize() const {
    const v1::LinuxContainerResources& resources = request_.resources();
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const admission::NodeState& state = snapshot->state;
    const bool sets_cpus = resources.cpu_shares() > 0 || resources.cpu_quota() > 0;
    const bool sets_memory = resources.memory_limit_in_bytes() != 0;
    return (sets_cpus && context_.node.cpu) ||
           (sets_memory && state.memory.assignments.contains(pod_uid_));
  }

  // The CPUs and the memory of a pod as a whole are not resized. Its shares show its request.
  std::optional<Refusal> RefuseWhole() const {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const admission::NodeState& state = snapshot->state;
    const std::string name = allocation::NameOrUid(NamedPod(context_, pod_uid_));
    const auto whole = state.cpu.pods.find(pod_uid_);
    const int64_t shares = request_.resources().cpu_shares();
    constexpr int64_t kThousandths = 1000;
    if (whole != state.cpu.pods.end() && shares > 0 &&
        shares != SharesFromMillis(whole->second.Count() * kThousandths)) {
      return allocation::RefusedPodResize(name, whole->second,
                                          allocation::CpusText(MillisFromShares(shares)));
    }
    const std::optional<uint64_t> assigned = allocation::AssignedMemory(state, pod_uid_);
    const int64_t memory = request_.resources().memory_limit_in_bytes();
    // The limit may contain the pod's overhead.
    const int64_t overhead = std::max<int64_t>(request_.overhead().memory_limit_in_bytes(), 0);
    if (!context_.node.memory || !assigned || memory <= 0) return std::nullopt;
    const auto bytes = static_cast<uint64_t>(memory);
    if (bytes == *assigned || bytes == *assigned + static_cast<uint64_t>(overhead)) {
      return std::nullopt;
    }
    return allocation::RefusedMemoryResize(state, pod_uid_, name, bytes);
  }

  // What UpdateContainerResources would refuse in any case.
  std::optional<RefusedContainer> FirstImpossible(const Pod& pod) const {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    for (const Container& container : pod.containers) {
      std::optional<Refusal> why =
          allocation::RefuseResize(context_.node, snapshot->state, pod, container.name,
                                   context_.allocation.allowed_resizes());
      const bool may_grow = context_.allocation.allowed_resizes() == allocation::CpuResizes::kAll;
      if (!why && growing_.contains(container.name) && !may_grow) {
        why = allocation::RefusedFirstCpus(allocation::NameOrUid(NamedPod(context_, pod_uid_)),
                                           container.name,
                                           ExclusiveCpus(pod, container) * kMillisPerWholeCpu);
      }
      if (why) return RefusedContainer{container.name, *std::move(why)};
    }
    return std::nullopt;
  }

  bool SharesCpusOfPod(const admission::NodeState& state, const std::string& container) const {
    return state.cpu.pods.contains(pod_uid_) && !state.cpu.HasOwnCpus({pod_uid_, container});
  }

  // The names of the containers that ask for more exclusive CPUs than they have.
  std::set<std::string> Growing() const {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    std::set<std::string> names = growing_;
    for (const Container& container : pod_.containers) {
      const CpuSet* const assigned = snapshot->state.cpu.Find({pod_uid_, container.name});
      if (assigned == nullptr || ExclusiveCpus(pod_, container) <= assigned->Count()) continue;
      names.insert(container.name);
    }
    return names;
  }

  // Resizes the containers one after the other, as the kubelet would, and keeps nothing of it. What
  // a container gives back is available to the next ones, so these come first. `asking`: the pod
  // with its policies and its claimed devices.
  std::optional<RefusedContainer> FirstRefused(const Pod& pod, const Pod& asking) const {
    admission::NodeState state = context_.allocation.snapshot()->state;
    for (const bool grows : {false, true}) {
      for (const Container& container : pod.containers) {
        const CpuSet* const assigned = state.cpu.Find({pod_uid_, container.name});
        if (assigned == nullptr && !growing_.contains(container.name)) continue;
        const int64_t count = ExclusiveCpus(pod, container);
        // It has a part of the shared CPUs of its pod, and none of its own.
        if (count == 0 && SharesCpusOfPod(state, container.name)) continue;
        if (count == 0 && !allocation::AsksForSharedCpus(container)) continue;
        if ((count > (assigned == nullptr ? 0 : assigned->Count())) != grows) continue;
        const ContainerKey key{pod_uid_, container.name};
        if (assigned == nullptr || state.cpu.WasShared(key)) {
          state = admission::WithPoliciesOf(context_.node, std::move(state), asking);
        }
        admission::ResizeDecision decision = admission::Resize(
            context_.node, state, key, count, admission::ClaimsOf(asking, container.name));
        if (decision.refusal) {
          return RefusedContainer{
              container.name, allocation::InPod(*std::move(decision.refusal),
                                                allocation::NameOrUid(NamedPod(context_, pod_uid_)),
                                                container.name)};
        }
        state = std::move(decision.next);
      }
    }
    return std::nullopt;
  }

  // Whether this has changed the request.
  bool KeepAssignments() {
    if (!request_.has_resources()) return false;
    v1::LinuxContainerResources& resources = *request_.mutable_resources();
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const admission::NodeState& state = snapshot->state;
    const bool has_quota = LiftsPodQuota(context_, pod_uid_) && HasQuota(resources) &&
                           state.cpu.assignments.contains(pod_uid_);
    if (has_quota) LiftQuota(resources);
    // Also for a pod without exclusive CPUs: alignd sets the CPUs of the shared pool, too.
    const bool has_cpus = context_.node.cpu && HasCpuSet(resources);
    if (has_cpus) {
      ReportCallersCpuSet(context_, "UpdatePodSandboxResources");
      ClearCpuSet(resources);
    }
    const bool has_nodes = state.memory.assignments.contains(pod_uid_) && HasMemoryNodes(resources);
    if (has_nodes) ClearMemoryNodes(resources);
    return has_quota || has_cpus || has_nodes;
  }

  const HandlerContext context_;
  std::string pod_uid_;
  std::string bytes_;                      // the request as it came
  Pod pod_;                                // as its source shows it, with its new sizes
  std::vector<const Container*> unclear_;  // of `pod_`: whether they are resized is not known yet
  std::set<std::string> growing_;          // names of those that ask for their first CPUs
  std::string cgroup_parent_;              // of the pod, if there are any
  size_t compared_ = 0;                    // of the pod's containers, for memory
  RefusedContainer other_memory_;          // of the container whose limit the runtime is asked for
  v1::UpdatePodSandboxResourcesRequest request_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context) {
  return std::make_unique<UpdatePodSandboxResources>(context);
}

}  // namespace alignd::cri
