#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cri/claimed_devices.h"
#include "cri/handlers.h"
#include "cri/malformed.h"
#include "cri/system_partition.h"
#include "cri/tracked_call.h"
#include "cri/waiting_call.h"
#include "host/printable.h"
#include "podsource/cri_sizes.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// One RunPodSandbox. Its steps stand in the order in which they happen; all run on the events
// thread. A request that can be read is forwarded as it came: a refusal is reported at
// CreateContainer, where the kubelet shows it and where alignd decides once more.
class RunPodSandbox final : public WaitingCall {
 public:
  explicit RunPodSandbox(const HandlerContext& context) : context_(context) {}

  void OnCancelled() override {
    WaitingCall::OnCancelled();
    context_.allocation.DropCancelled();
  }

  void OnRequest(std::string bytes, Decide decide) override {
    bytes_ = std::move(bytes);
    v1::RunPodSandboxRequest request;
    if (!ReadRequest(bytes_, request, decide)) return;
    const Result<Done> named = RequirePodNames(request.config().metadata());
    if (!named.ok()) return decide(rpc::ToStatus(named.error()));
    handler_ = host::Escaped(request.runtime_handler());
    config_ = std::make_shared<const v1::PodSandboxConfig>(std::move(*request.mutable_config()));
    context_.reconciler.WhenListed(Next(&RunPodSandbox::LearnResources, std::move(decide)),
                                   cancelled());
  }

  // The call begins after the listing: what a pod was assigned before alignd's restart stays
  // assigned only if the listing shows its sandbox.
  void LearnResources(bool listed, Decide decide) {
    const std::string& uid = config_->metadata().uid();
    call_.emplace(context_.registry, context_.reconciler, uid);
    if (!listed || uid.empty()) return Forward(decide);
    context_.resources.Ask({config_, nullptr},
                           Next(&RunPodSandbox::FindDevices, std::move(decide)));
  }

  void FindDevices(Result<std::optional<podsource::PodAsk>> known, Decide decide) {
    const bool is_known = known.ok() && *known;
    if (!is_known || AwaitsKubeletsAllocation((*known)->pod)) return Forward(decide);
    MarkHandler(context_, handler_, (*known)->pod);
    RequirePartitionHasCpus(context_, config_->linux().cgroup_parent(), **std::move(known),
                            Next(&RunPodSandbox::FindClaims, std::move(decide)));
  }

  void FindClaims(Result<podsource::PodAsk> ask, Decide decide) {
    if (!ask.ok()) return Admit(std::move(ask), std::move(decide));
    FindClaimed(context_, *std::move(ask), /*config=*/nullptr,
                Next(&RunPodSandbox::Admit, std::move(decide)));
  }

  void Admit(Result<podsource::PodAsk> known, Decide decide) {
    if (!known.ok()) {
      spdlog::info("pod {} is decided about when its containers are created: {}", PodName(),
                   known.error().message);
      return Forward(decide);
    }
    podsource::PodAsk& ask = *known;
    AdmitPod(context_,
             {.pod = std::move(ask.pod),
              .source = std::move(ask.source),
              .roles_are_concluded = ask.roles_are_concluded,
              .memory_in_cri = {.is_annotated = ask.is_annotated},
              .message_bytes = bytes_.size(),
              .cancelled = cancelled()},
             Next(&RunPodSandbox::Decided, std::move(decide)));
  }

  // The sandbox is made in any case; the decision is logged and shown (DecisionLog).
  void Decided(const allocation::Outcome& /*outcome*/, Decide decide) { Forward(decide); }

  void OnResponse(const grpc::Status& status, const std::string* bytes) override {
    v1::RunPodSandboxResponse response;
    if (status.ok() && ReadAnswer(*bytes, response) && !response.pod_sandbox_id().empty()) {
      context_.registry.AddSandbox(response.pod_sandbox_id(), config_->metadata().uid(), PodName(),
                                   handler_, podsource::PodWithoutContainers(*config_).policies);
    } else if (status.ok()) {
      context_.reconciler.Relist();  // the sandbox exists, under an id that is not known yet
    }
    call_.reset();
  }

 private:
  template <typename Argument>
  std::function<void(Argument)> Next(void (RunPodSandbox::*step)(Argument, Decide), Decide decide) {
    return NextStep(context_, this, step, std::move(decide));
  }

  // Whether the pod requests devices that the kubelet allocates. Which ones, each CreateContainer
  // says.
  bool AwaitsKubeletsAllocation(const Pod& pod) const {
    if (!context_.mirrors_devices) return false;
    const auto snapshot = context_.allocation.snapshot();
    const auto& known = snapshot->state.devices.resources;
    return std::ranges::any_of(pod.containers, [&](const Container& container) {
      return std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
        return known.contains(limit.first) && !limit.second.IsZero();
      });
    });
  }

  // "namespace/name"; empty if the pod has no name.
  std::string PodName() const {
    const v1::PodSandboxMetadata& metadata = config_->metadata();
    return metadata.name().empty() ? "" : metadata.namespace_() + "/" + metadata.name();
  }

  void Forward(const Decide& decide) { decide(std::move(bytes_)); }

  const HandlerContext context_;
  std::string bytes_;    // the request as it came
  std::string handler_;  // the runtime handler; empty: the runtime's default
  std::shared_ptr<const v1::PodSandboxConfig> config_;
  std::optional<PodCall> call_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeRunPodSandbox(const HandlerContext& context) {
  return std::make_unique<RunPodSandbox>(context);
}

}  // namespace alignd::cri
