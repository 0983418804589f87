#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/message_bytes.h"
#include "cri/tracked_call.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

constexpr int64_t kDefaultPeriod = 100'000;  // microseconds; what a period of 0 means
constexpr int64_t kSharesPerCpu = 1024;

std::string Cpus(int64_t amount, int64_t per_cpu) {
  std::string text = std::to_string(static_cast<double>(amount) / static_cast<double>(per_cpu));
  text.erase(text.find_last_not_of('0') + 1);  // "1.500000"
  if (text.ends_with('.')) text.pop_back();
  return text;
}

// Why the container must not be resized so, or nullopt. The quota says how many CPUs it is to have;
// where it says nothing, the shares do, which are those of the request: the same for a container
// with exclusive CPUs. Source: kubelet pkg/kubelet/kuberuntime/kuberuntime_container_linux.go,
// calculateLinuxResources.
std::optional<Refusal> Refuses(const ContainerKey& key, const CpuSet& exclusive,
                               const v1::LinuxContainerResources& resources) {
  if (exclusive.empty()) return std::nullopt;
  const bool by_quota = resources.cpu_quota() > 0;
  const int64_t period = resources.cpu_period() > 0 ? resources.cpu_period() : kDefaultPeriod;
  const int64_t per_cpu = by_quota ? period : kSharesPerCpu;
  const int64_t amount = by_quota ? resources.cpu_quota() : resources.cpu_shares();
  if (amount <= 0 || amount == exclusive.Count() * per_cpu) return std::nullopt;
  return Refusal{
      "ResizeRefused",
      "container " + key.container + " of pod " + key.pod_uid + " has " +
          std::to_string(exclusive.Count()) + " exclusive CPUs (" + exclusive.ToString() +
          "), and a running container cannot change that: asked for " + Cpus(amount, per_cpu) +
          " CPUs. Nothing was changed. Delete the pod and create it with the CPUs that it "
          "needs; its memory can be resized"};
}

class UpdateContainerResourcesHandler final : public CallHandler {
 public:
  explicit UpdateContainerResourcesHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::UpdateContainerResourcesRequest request;
    const std::optional<ContainerKey> key =
        Parse(bytes, request) ? context_.registry.KeyOf(request.container_id()) : std::nullopt;
    if (!key) {
      decide(std::move(bytes));
      return;
    }
    const auto grant_now = [&] {
      return admission::GrantOf(context_.node, context_.allocation.snapshot()->state, *key);
    };
    if (const auto refused = Refuses(*key, grant_now().exclusive, request.linux())) {
      decide(rpc::ToStatus(*refused));
      return;
    }
    // Before the set is looked at: from here on nobody who is given CPUs starts while this call may
    // put the container on them. The set may move on before the runtime hears of this one: it is
    // told once more afterwards.
    call_.emplace(context_.registry, context_.reconciler, request.container_id(),
                  /*changes_cpus=*/true);
    call_->Begin();
    const admission::Grant grant = grant_now();
    if (IsEmpty(grant)) {
      decide(std::move(bytes));
      return;
    }
    if (!request.linux().cpuset_cpus().empty() && !grant.cpuset.empty()) {
      context_.upkeep.SawOtherManager(
          "UpdateContainerResources comes with CPU sets of the caller's own",
          "give the kubelet cpuManagerPolicy none, and let nothing else set cpusets through this "
          "socket; alignd's sets stay");
    }
    KeepGrant(grant, *request.mutable_linux());
    decide(Serialize(request));
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override { call_.reset(); }

 private:
  const HandlerContext context_;
  std::optional<ContainerCall> call_;
};

// What the whole pod may use. The cgroup itself is the kubelet's: see cgroup/pod_quota.h.
class UpdatePodSandboxResourcesHandler final : public CallHandler {
 public:
  explicit UpdatePodSandboxResourcesHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::UpdatePodSandboxResourcesRequest request;
    const std::optional<std::string> pod_uid =
        Parse(bytes, request) ? context_.registry.PodOfSandbox(request.pod_sandbox_id())
                              : std::nullopt;
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const bool keeps = context_.pod_quotas != nullptr && pod_uid &&
                       snapshot->state.cpu.assignments.contains(*pod_uid) &&
                       request.resources().cpu_quota() > 0;
    if (!keeps) {
      decide(std::move(bytes));
      return;
    }
    request.mutable_resources()->set_cpu_quota(kNoQuota);
    decide(Serialize(request));
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override {}

 private:
  const HandlerContext context_;
};

}  // namespace

std::unique_ptr<CallHandler> MakeUpdateContainerResources(const HandlerContext& context) {
  return std::make_unique<UpdateContainerResourcesHandler>(context);
}

std::unique_ptr<CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context) {
  return std::make_unique<UpdatePodSandboxResourcesHandler>(context);
}

}  // namespace alignd::cri
