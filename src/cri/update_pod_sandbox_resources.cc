#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "alignd/admission/resize.h"
#include "alignd/pod/pod.h"
#include "allocation/current_assignment.h"
#include "cri/find_named.h"
#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/malformed.h"
#include "cri/waiting_call.h"
#include "podsource/cri_sizes.h"
#include "podsource/resource_source.h"
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
  // of exclusive CPUs that is not possible is refused here: UpdateContainerResources would come
  // when the pod's cgroup has its new size. The request has no container; the pod's source has.
  // Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_manager.go, doPodResizeAction.
  void AskSizes(const Decide& decide) {
    if (const std::optional<Refusal> refused = RefuseWhole()) {
      return decide(RefuseInPlaceResize(context_, {pod_uid_, ""}, *refused));
    }
    context_.conditions.ResizeSettled({pod_uid_, ""});  // of the pod as a whole
    if (!MayResizeCpus()) return Forward(decide);
    auto sandbox = std::make_shared<v1::PodSandboxConfig>();
    sandbox->mutable_metadata()->set_uid(pod_uid_);
    context_.resources.Ask({std::move(sandbox), nullptr},
                           Next(&UpdatePodSandboxResources::TryResize, decide));
  }

  // If the source does not know the pod, UpdateContainerResources decides.
  void TryResize(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    if (!known.ok() || !*known) return Forward(decide);
    Pod& pod = (*known)->pod;
    MarkHandler(context_, context_.registry.HandlerOfPod(pod_uid_), pod);
    const std::optional<RefusedContainer> refused = FirstRefused(pod);
    if (!refused) return Forward(decide);
    decide(RefuseInPlaceResize(context_, {pod_uid_, refused->name}, refused->why));
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

  struct RefusedContainer {
    std::string name;
    Refusal why;
  };

  template <typename Argument>
  std::function<void(Argument)> Next(void (UpdatePodSandboxResources::*step)(Argument, Decide),
                                     Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  bool MayResizeCpus() const {
    const v1::LinuxContainerResources& resources = request_.resources();
    const bool sets_cpus = resources.cpu_shares() > 0 || resources.cpu_quota() > 0;
    return sets_cpus && context_.allocation.resizes_exclusive_cpus() &&
           context_.allocation.snapshot()->state.cpu.assignments.contains(pod_uid_);
  }

  // The pod's CPUs as a whole are not resized. Its shares show its request.
  std::optional<Refusal> RefuseWhole() const {
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const auto whole = snapshot->state.cpu.pods.find(pod_uid_);
    const int64_t shares = request_.resources().cpu_shares();
    if (whole == snapshot->state.cpu.pods.end() || shares <= 0) return std::nullopt;
    constexpr int64_t kThousandths = 1000;
    const int64_t millis = whole->second.Count() * kThousandths;
    if (shares == podsource::SharesFromMillis(millis)) return std::nullopt;
    return allocation::RefusedPodResize(allocation::NameOrUid(NamedPod(context_, pod_uid_)),
                                        whole->second,
                                        allocation::CpusText(podsource::MillisFromShares(shares)));
  }

  // Resizes the containers one after the other, as the kubelet would, and keeps nothing of it. What
  // a container gives back is available to the next ones, so these come first.
  std::optional<RefusedContainer> FirstRefused(const Pod& pod) const {
    admission::NodeState state = context_.allocation.snapshot()->state;
    for (const bool grows : {false, true}) {
      for (const Container& container : pod.containers) {
        const CpuSet* const assigned = state.cpu.Find({pod_uid_, container.name});
        const int64_t count = ExclusiveCpus(pod, container);
        if (assigned == nullptr || count <= 0 || (count > assigned->Count()) != grows) continue;
        admission::ResizeDecision decision =
            admission::Resize(context_.node, state, {pod_uid_, container.name}, count);
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
  std::string bytes_;  // the request as it came
  v1::UpdatePodSandboxResourcesRequest request_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context) {
  return std::make_unique<UpdatePodSandboxResources>(context);
}

}  // namespace alignd::cri
