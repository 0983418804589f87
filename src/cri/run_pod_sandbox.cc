#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "cri/handlers.h"
#include "cri/message_bytes.h"
#include "cri/tracked_call.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

namespace v1 = runtime::v1;

// Has the pod decided before its sandbox is made. A refusal is said at CreateContainer, where the
// kubelet shows it and where it is decided once more.
void AdmitWhole(const HandlerContext& context, const std::shared_ptr<PodCall>& call,
                const podsource::PodAsk& ask, const grpc::ByteBuffer& bytes, const Decide& decide) {
  AdmitReleasingStopped(
      context, ask, /*wanted=*/"", /*counted=*/{},
      [call, bytes, decide, name = NameOf(ask.pod)](const allocation::Outcome& outcome) {
        if (const auto* refusal = std::get_if<Refusal>(&outcome)) {
          spdlog::info("pod {} does not fit now: {}: {}", name, refusal->reason, refusal->message);
        }
        decide(bytes);
      });
}

// Whether it is to be heard first which devices the kubelet counted for the pod's containers.
bool AwaitsCount(const HandlerContext& context, const Pod& pod) {
  if (!context.mirrors_devices) return false;
  const auto snapshot = context.allocation.snapshot();
  const auto& known = snapshot->state.devices.resources;
  return std::ranges::any_of(pod.containers, [&](const Container& container) {
    return std::ranges::any_of(container.resources.limits, [&](const auto& limit) {
      return known.contains(limit.first) && !limit.second.IsZero();
    });
  });
}

class RunPodSandboxHandler final : public proxy::CallHandler {
 public:
  explicit RunPodSandboxHandler(const HandlerContext& context) : context_(context) {}

  void OnRequest(grpc::ByteBuffer bytes, Decide decide) override {
    v1::RunPodSandboxRequest request;
    if (!Parse(bytes, request)) {
      decide(std::move(bytes));  // the runtime knows what to say of it
      return;
    }
    const v1::PodSandboxMetadata& metadata = request.config().metadata();
    pod_uid_ = metadata.uid();
    if (!metadata.name().empty()) name_ = metadata.namespace_() + "/" + metadata.name();
    auto sandbox = std::make_shared<const v1::PodSandboxConfig>(request.config());
    context_.reconciler.WhenListed([this, sandbox = std::move(sandbox), bytes = std::move(bytes),
                                    decide = std::move(decide)](bool listed) {
      // Not before: what it held in a former life it has only as long as its sandbox was there.
      call_ = std::make_shared<PodCall>(context_.registry, context_.reconciler, pod_uid_);
      if (listed && !pod_uid_.empty()) {
        Handle(context_, call_, sandbox, bytes, decide);
      } else {
        decide(bytes);
      }
    });
  }

  void OnResponse(const grpc::Status& status, const grpc::ByteBuffer* bytes) override {
    v1::RunPodSandboxResponse response;
    if (status.ok() && Parse(*bytes, response)) {
      context_.registry.AddSandbox(response.pod_sandbox_id(), pod_uid_, name_);
    }
    if (call_) call_->End();
  }

 private:
  static void Handle(const HandlerContext& context, const std::shared_ptr<PodCall>& call,
                     std::shared_ptr<const v1::PodSandboxConfig> sandbox,
                     const grpc::ByteBuffer& bytes, const Decide& decide) {
    context.resources.Ask(
        {std::move(sandbox), nullptr},
        [context, call, bytes, decide](const Result<std::optional<podsource::PodAsk>>& known) {
          if (known.ok() && *known && !AwaitsCount(context, (*known)->pod)) {
            AdmitWhole(context, call, **known, bytes, decide);
          } else {
            decide(bytes);  // a fault is said at CreateContainer
          }
        });
  }

  const HandlerContext context_;
  std::string pod_uid_;
  std::string name_;  // namespace/name
  std::shared_ptr<PodCall> call_;
};

}  // namespace

std::unique_ptr<proxy::CallHandler> MakeRunPodSandbox(const HandlerContext& context) {
  return std::make_unique<RunPodSandboxHandler>(context);
}

}  // namespace alignd::cri
