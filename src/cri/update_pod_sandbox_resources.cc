#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cri/find_named.h"
#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/malformed.h"
#include "cri/waiting_call.h"
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
    FindNamed(context_,
              {.what = "sandbox " + request_.pod_sandbox_id(),
               .find = [this] { return FindSandbox(); },
               .sets_assigned = SetsAssigned(context_.node, request_.resources()),
               .deadline = deadline(),
               .next =
                   [this](bool found, const Decide& next) {
                     const bool changed = found && KeepAssignments();
                     next(changed ? request_.SerializeAsString() : std::move(bytes_));
                   }},
              std::move(decide));
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

  // Whether this has changed the request.
  bool KeepAssignments() {
    if (!request_.has_resources()) return false;
    v1::LinuxContainerResources& resources = *request_.mutable_resources();
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const admission::NodeState& state = snapshot->state;
    const bool has_quota = context_.lifts_pod_quotas && HasQuota(resources) &&
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
