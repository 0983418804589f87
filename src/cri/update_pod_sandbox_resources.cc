#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/malformed.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// The sizes of the whole pod. The kubelet writes them to the pod's cgroup itself: see
// cgroup/pod_quota.h. Sets of CPUs and of memory nodes are each container's own.
class UpdatePodSandboxResources final : public proxy::CallHandler {
 public:
  explicit UpdatePodSandboxResources(const HandlerContext& context) : context_(context) {}

  void OnRequest(std::string bytes, Decide decide) override {
    if (!ReadRequest(bytes, request_, decide)) return;
    bytes_ = std::move(bytes);
    if (context_.registry.SandboxNamed(request_.pod_sandbox_id())) {
      return Forward(true, std::move(decide));
    }
    context_.reconciler.WhenListed(
        NextStep(context_, this, &UpdatePodSandboxResources::Forward, std::move(decide)));
  }

  void Forward(bool listed, Decide decide) {
    if (!listed) return decide(NotListed());
    const std::optional<std::string> id = context_.registry.SandboxNamed(request_.pod_sandbox_id());
    const std::optional<std::string> pod_uid =
        id ? context_.registry.PodOfSandbox(*id) : std::nullopt;
    const bool changed = KeepAssignments(pod_uid.value_or(""), request_);
    decide(changed ? request_.SerializeAsString() : std::move(bytes_));
  }

  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  // Whether this has changed the request.
  bool KeepAssignments(const std::string& pod_uid,
                       v1::UpdatePodSandboxResourcesRequest& request) const {
    if (!request.has_resources()) return false;
    v1::LinuxContainerResources& resources = *request.mutable_resources();
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const admission::NodeState& state = snapshot->state;
    const bool has_quota = context_.pod_quotas != nullptr && HasQuota(resources) &&
                           state.cpu.assignments.contains(pod_uid);
    if (has_quota) LiftQuota(resources);
    // Also for a pod without exclusive CPUs: alignd sets the CPUs of the shared pool, too.
    const bool has_cpus = context_.node.cpu && HasCpuSet(resources);
    if (has_cpus) {
      ReportCallersCpuSet(context_, "UpdatePodSandboxResources");
      ClearCpuSet(resources);
    }
    const bool has_nodes = state.memory.assignments.contains(pod_uid) && HasMemoryNodes(resources);
    if (has_nodes) ClearMemoryNodes(resources);
    return has_quota || has_cpus || has_nodes;
  }

  const HandlerContext context_;
  std::string bytes_;  // the request as it came
  v1::UpdatePodSandboxResourcesRequest request_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context) {
  return std::make_unique<UpdatePodSandboxResources>(context);
}

}  // namespace alignd::cri
