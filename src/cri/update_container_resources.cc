#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "alignd/pod/pod.h"
#include "allocation/held.h"
#include "cri/handlers.h"
#include "cri/injection.h"
#include "cri/message_bytes.h"
#include "cri/tracked_call.h"
#include "podsource/cri_sizes.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

constexpr int64_t kDefaultPeriod = 100'000;  // microseconds; what a period of 0 means
constexpr int64_t kMillisPerWholeCpu = 1000;

std::string Cpus(int64_t millis) {
  std::string text =
      std::to_string(static_cast<double>(millis) / static_cast<double>(kMillisPerWholeCpu));
  text.erase(text.find_last_not_of('0') + 1);  // "1.500000"
  if (text.ends_with('.')) text.pop_back();
  return text + (text == "1" ? " CPU" : " CPUs");
}

// How many thousandths of a CPU a container of a Guaranteed pod is to have by this update; nullopt
// if it does not say. Its limit is its request. A kubelet states all sizes each time, also when
// only one of them changes; where it sets no quota (cpuCFSQuota: false, or exclusive CPUs of its
// own) the shares tell. Others set shares alone, which makes nobody larger. Source: kubelet
// pkg/kubelet/kuberuntime/kuberuntime_container_linux.go, calculateLinuxResources.
std::optional<int64_t> AskedMillis(v1::LinuxContainerResources resources) {
  if (const auto file = resources.unified().find("cpu.max"); file != resources.unified().end()) {
    std::istringstream text(file->second);  // "QUOTA PERIOD", "QUOTA" or "max"
    int64_t quota = 0;
    int64_t period = kDefaultPeriod;
    if (text >> quota) {
      text >> period;
      resources.set_cpu_quota(quota);
      resources.set_cpu_period(period);
    } else {
      resources.set_cpu_quota(kNoQuota);
    }
  }
  if (resources.cpu_quota() > 0) {
    if (resources.cpu_period() <= 0) resources.set_cpu_period(kDefaultPeriod);
    return podsource::MillisFromQuota(resources);
  }
  const bool complete = resources.cpu_shares() > 0 && resources.memory_limit_in_bytes() > 0;
  if (!complete) return std::nullopt;
  return podsource::MillisFromShares(resources.cpu_shares());
}

// Whether a container with that many exclusive CPUs keeps them. Shares have an upper end.
bool KeepsCount(const v1::LinuxContainerResources& resources, int count) {
  const std::optional<int64_t> asked = AskedMillis(resources);
  if (!asked || *asked == count * kMillisPerWholeCpu) return true;
  return resources.cpu_quota() <= 0 &&
         resources.cpu_shares() == podsource::SharesFromMillis(count * kMillisPerWholeCpu);
}

bool IsWhole(std::optional<int64_t> millis) {
  return millis && *millis > 0 && *millis % kMillisPerWholeCpu == 0;
}

// Why a container of the shared pool that asks for exclusive CPUs from now on cannot have them.
Refusal RefusedGrowth(const ContainerKey& key, int64_t millis) {
  return {"ResizeRefused",
          "container " + key.container + " of pod " + key.pod_uid +
              " runs in the shared pool, and exclusive CPUs are given only when a container is "
              "created: asked for " +
              Cpus(millis) +
              ", which are exclusive in a Guaranteed pod. Nothing was changed. Delete the pod and "
              "create it with the CPUs that it needs, or ask for a number of CPUs that is not "
              "whole, such as " +
              Cpus(millis - 100)};
}

void SawSetsOfTheCaller(const HandlerContext& context, const std::string& method) {
  context.conditions.SawConflictingManager(
      method + " comes with CPU sets of the caller's own",
      "give the kubelet cpuManagerPolicy none, and let nothing else set cpusets through this "
      "socket; alignd's sets stay");
}

class UpdateContainerResourcesHandler final : public proxy::CallHandler {
 public:
  explicit UpdateContainerResourcesHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    if (!Parse(bytes, request_)) {
      decide(std::move(bytes));  // the runtime knows what to say of it
      return;
    }
    if (context_.registry.ContainerNamed(request_.container_id())) {
      Handle(bytes, decide);
      return;
    }
    context_.reconciler.WhenListed([this, bytes = std::move(bytes),
                                    decide = std::move(decide)](bool) { Handle(bytes, decide); });
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override { call_.reset(); }

 private:
  void Handle(const grpc::ByteBuffer& bytes, const Decide& decide) {
    id_ = context_.registry.ContainerNamed(request_.container_id()).value_or("");
    const std::optional<ContainerKey> key = context_.registry.KeyOf(id_);
    if (!key) {
      decide(bytes);
      return;
    }
    const CpuSet exclusive = AssignmentNow(*key).exclusive;
    const std::optional<int64_t> asked = AskedMillis(request_.linux());
    if (!exclusive.empty() && !KeepsCount(request_.linux(), exclusive.Count())) {
      decide(rpc::ToStatus(allocation::ResizeRefusal(*key, exclusive, Cpus(*asked))));
    } else if (exclusive.empty() && context_.node.cpu && IsWhole(asked)) {
      AskWhetherItGrows(*key, *asked, bytes, decide);
    } else {
      PassOn(*key, bytes, decide);
    }
  }

  // In a Guaranteed pod a whole number of CPUs is exclusive, unless the container had as many
  // before and was given none all the same: it is older than we are, or its pod has resources of
  // its own. Who does not answer is no reason to refuse it: it stays where it is in any case.
  void AskWhetherItGrows(const ContainerKey& key, int64_t millis, const grpc::ByteBuffer& bytes,
                         const Decide& decide) {
    context_.runtime.FindSpec(
        id_, [this, key, millis, bytes, decide](const Result<reconcile::ContainerSpec>& spec) {
          if (!spec.ok() || MillisOf(*spec) == millis) {
            PassOn(key, bytes, decide);
            return;
          }
          context_.resources.Ask(
              QuestionOf(key, spec->cgroup),
              [this, key, millis, bytes,
               decide](const Result<std::optional<podsource::PodAsk>>& known) {
                if (known.ok() && *known && WantsExclusive((*known)->pod, key.container)) {
                  decide(rpc::ToStatus(RefusedGrowth(key, millis)));
                } else {
                  PassOn(key, bytes, decide);
                }
              });
        });
  }

  static std::optional<int64_t> MillisOf(const reconcile::ContainerSpec& spec) {
    v1::LinuxContainerResources now;
    now.set_cpu_quota(spec.cpu_quota);
    now.set_cpu_period(spec.cpu_period);
    if (spec.cpu_quota > 0) return podsource::MillisFromQuota(now);
    if (spec.cpu_shares > 0) return podsource::MillisFromShares(spec.cpu_shares);
    return std::nullopt;
  }

  // As if the container were created with its new sizes.
  podsource::Question QuestionOf(const ContainerKey& key, const std::string& cgroup) const {
    auto sandbox = std::make_shared<v1::PodSandboxConfig>();
    sandbox->mutable_metadata()->set_uid(key.pod_uid);
    sandbox->mutable_linux()->set_cgroup_parent(cgroup.substr(0, cgroup.rfind('/')));
    auto container = std::make_shared<v1::ContainerConfig>();
    container->mutable_metadata()->set_name(key.container);
    *container->mutable_linux()->mutable_resources() = request_.linux();
    return {std::move(sandbox), std::move(container)};
  }

  static bool WantsExclusive(const Pod& pod, const std::string& name) {
    const auto container = std::ranges::find(pod.containers, name, &Container::name);
    return container != pod.containers.end() && ExclusiveCpus(pod, *container) > 0;
  }

  void PassOn(const ContainerKey& key, const grpc::ByteBuffer& bytes, const Decide& decide) {
    // Before the set is looked at: from here on nobody who is given CPUs starts while this call may
    // put the container on them. The set may move on before the runtime hears of this one: it is
    // told once more afterwards.
    call_.emplace(context_.registry, context_.reconciler, /*changes_cpus=*/true);
    call_->Begin(id_);
    const admission::Assignment grant = AssignmentNow(key);
    if (IsEmpty(grant)) {
      decide(bytes);
      return;
    }
    if (HasCpuSet(request_.linux()) && !grant.cpuset.empty()) {
      SawSetsOfTheCaller(context_, "UpdateContainerResources");
    }
    KeepAssignment(grant, *request_.mutable_linux());
    decide(Serialize(request_));
  }

  admission::Assignment AssignmentNow(const ContainerKey& key) const {
    return admission::AssignmentOf(context_.node, context_.allocation.snapshot()->state, key);
  }

  const HandlerContext context_;
  v1::UpdateContainerResourcesRequest request_;
  std::string id_;  // the whole one, of the container that the request names
  std::optional<ContainerCall> call_;
};

// What the whole pod may use. The cgroup itself is the kubelet's: see cgroup/pod_quota.h. CPU and
// memory sets are each container's own.
class UpdatePodSandboxResourcesHandler final : public proxy::CallHandler {
 public:
  explicit UpdatePodSandboxResourcesHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::UpdatePodSandboxResourcesRequest request;
    const std::optional<std::string> id =
        Parse(bytes, request) ? context_.registry.SandboxNamed(request.pod_sandbox_id())
                              : std::nullopt;
    const std::optional<std::string> pod_uid =
        id ? context_.registry.PodOfSandbox(*id) : std::nullopt;
    if (pod_uid && Keep(*pod_uid, request)) {
      decide(Serialize(request));
    } else {
      decide(std::move(bytes));
    }
  }

  void OnResponse(const grpc::Status&, const grpc::ByteBuffer*) override {}

 private:
  // Whether anything was changed in it.
  bool Keep(const std::string& pod_uid, v1::UpdatePodSandboxResourcesRequest& request) const {
    if (!request.has_resources()) return false;
    v1::LinuxContainerResources& resources = *request.mutable_resources();
    const std::shared_ptr<const allocation::Snapshot> snapshot = context_.allocation.snapshot();
    const admission::NodeState& state = snapshot->state;
    const bool keeps_quota = context_.pod_quotas != nullptr && HasQuota(resources) &&
                             state.cpu.assignments.contains(pod_uid);
    if (keeps_quota) LiftQuota(resources);
    // The shared pool is a set of ours, too.
    const bool has_cpus = context_.node.cpu && HasCpuSet(resources);
    if (has_cpus) {
      SawSetsOfTheCaller(context_, "UpdatePodSandboxResources");
      ClearCpuSet(resources);
    }
    const bool has_nodes = state.memory.assignments.contains(pod_uid) && HasMemoryNodes(resources);
    if (has_nodes) ClearMemoryNodes(resources);
    return keeps_quota || has_cpus || has_nodes;
  }

  const HandlerContext context_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeUpdateContainerResources(const HandlerContext& context) {
  return std::make_unique<UpdateContainerResourcesHandler>(context);
}

std::unique_ptr<proxy::CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context) {
  return std::make_unique<UpdatePodSandboxResourcesHandler>(context);
}

}  // namespace alignd::cri
