#include "cri/bypassed_call.h"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cri/handlers.h"
#include "mirror/marker.h"
#include "rpc/grpc_status.h"
#include "runtime/v1/cri.pb.h"

namespace alignd::cri {
namespace {

using reconcile::Bypass;
using CallUnderWay = std::shared_ptr<const void>;  // of Bypass::BeginCall

// Only counted. A call that the kubelet gives up is not reset at the runtime: it would not be known
// when the runtime has ended it, and `bypass off` could miss a container.
class BypassedCall final : public proxy::CallHandler {
 public:
  explicit BypassedCall(CallUnderWay call) : call_(std::move(call)) {}

  bool IsRelayed() const override { return true; }
  bool OutlivesCaller() const override { return true; }
  void OnRequest(std::string, Decide) override {}
  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  const CallUnderWay call_;
};

bool HasMarkers(const runtime::v1::ContainerConfig& config) {
  for (const auto& [key, value] : config.annotations()) {
    if (key.starts_with(mirror::kMarkerPrefix)) return true;
  }
  return false;
}

// The container of the request that has markers; null: none has.
const runtime::v1::ContainerConfig* WithMarkers(
    const runtime::v1::CreateContainerRequest& request) {
  return HasMarkers(request.config()) ? &request.config() : nullptr;
}
const runtime::v1::ContainerConfig* WithMarkers(const runtime::v1::RestorePodRequest& request) {
  for (const runtime::v1::ContainerConfig& config : request.container_configs()) {
    if (HasMarkers(config)) return &config;
  }
  return nullptr;
}

// A request whose containers may have markers.
template <typename Request>
class BypassedCreate final : public proxy::CallHandler {
 public:
  explicit BypassedCreate(CallUnderWay call) : call_(std::move(call)) {}

  bool OutlivesCaller() const override { return true; }
  void OnRequest(std::string bytes, Decide decide) override {
    Request request;
    if (!request.ParseFromString(bytes)) return decide(std::move(bytes));
    const runtime::v1::ContainerConfig* const container = WithMarkers(request);
    if (container == nullptr) return decide(std::move(bytes));
    decide(rpc::ToStatus(
        Error{ErrorCode::kUnavailable,
              "container " + container->metadata().name() +
                  " would start without its devices: alignd's bypass is on, and the kubelet has "
                  "allocated them from alignd",
              "run `alignctl bypass off` on the node"}));
  }
  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  const CallUnderWay call_;
};

class RefusedCall final : public proxy::CallHandler {
 public:
  grpc::Status OnCall() override {
    return rpc::ToStatus(Error{ErrorCode::kUnavailable,
                               "alignd's bypass is being turned off: alignd lists the containers "
                               "of the runtime first",
                               "retry"});
  }
  void OnRequest(std::string, Decide) override {}
  void OnResponse(const grpc::Status&, const std::string*) override {}
};

bool Creates(std::string_view method) {
  return method == "RunPodSandbox" || method == "CreateContainer" || method == "RestorePod";
}

bool NeedsDecision(std::string_view method) {
  return Creates(method) || method == "StartContainer" || method == "UpdateContainerResources" ||
         method == "UpdatePodSandboxResources";
}

}  // namespace

proxy::HandlerFactory WithBypass(const Bypass& bypass, proxy::HandlerFactory handlers,
                                 bool mirrors_devices) {
  return [&bypass, handlers = std::move(handlers),
          mirrors_devices](const std::string& path) -> std::unique_ptr<proxy::CallHandler> {
    if (bypass.state() == Bypass::State::kOff) return handlers(path);
    const std::string_view method = RuntimeMethod(path);
    // Counted before the state is read: a call that still sees "on" is waited for.
    CallUnderWay call = Creates(method) ? bypass.BeginCall() : nullptr;
    switch (bypass.state()) {
      case Bypass::State::kOff:
        return handlers(path);
      case Bypass::State::kEnding:
        if (NeedsDecision(method)) return std::make_unique<RefusedCall>();
        return handlers(path);
      case Bypass::State::kOn:
        break;
    }
    // It decides nothing, and the kubelet may refuse a runtime without it.
    if (method == "RuntimeConfig") return handlers(path);
    if (call == nullptr) return nullptr;
    if (mirrors_devices && method == "CreateContainer") {
      return std::make_unique<BypassedCreate<runtime::v1::CreateContainerRequest>>(std::move(call));
    }
    if (mirrors_devices && method == "RestorePod") {
      return std::make_unique<BypassedCreate<runtime::v1::RestorePodRequest>>(std::move(call));
    }
    return std::make_unique<BypassedCall>(std::move(call));
  };
}

}  // namespace alignd::cri
