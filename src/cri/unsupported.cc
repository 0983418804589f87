#include "cri/unsupported.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cri/handlers.h"
#include "host/printable.h"

namespace alignd::cri {
namespace {

// As of CRI 0.37. A checkpoint leaves the resources of a container as they are.
constexpr std::array kRelayed = std::to_array<std::string_view>({
    "Version",
    "Status",
    "UpdateRuntimeConfig",
    "PodSandboxStatus",
    "ListPodSandbox",
    "StreamPodSandboxes",
    "ListContainers",
    "StreamContainers",
    "ReopenContainerLog",
    "ExecSync",
    "Exec",
    "Attach",
    "PortForward",
    "GetContainerEvents",
    "ContainerStats",
    "ListContainerStats",
    "StreamContainerStats",
    "PodSandboxStats",
    "ListPodSandboxStats",
    "StreamPodSandboxStats",
    "ListMetricDescriptors",
    "ListPodSandboxMetrics",
    "StreamPodSandboxMetrics",
    "CheckpointContainer",
    "CheckpointPod",
});

struct Reason {
  std::string text;
  std::string remedy;
};

Reason ReasonFor(std::string_view path) {
  const std::string_view method = RuntimeMethod(path);
  if (!method.empty()) {
    return {"it is not a method of CRI 0.37 and may create or change containers",
            "use an alignd that supports it"};
  }
  return {"alignd serves the Container Runtime Interface alone",
          "use the runtime's own socket; containers that are created there have no assignment"};
}

class Unsupported final : public proxy::CallHandler {
 public:
  explicit Unsupported(std::string path) : path_(std::move(path)) {}

  grpc::Status OnCall() override {
    const Reason reason = ReasonFor(path_);
    const std::string_view name = std::string_view(path_).substr(path_.starts_with('/') ? 1 : 0);
    return {grpc::StatusCode::UNIMPLEMENTED, "alignd does not support " + host::Escaped(name) +
                                                 ": " + reason.text + "; " + reason.remedy};
  }
  // OnCall has ended the call.
  void OnRequest(std::string, Decide) override {}
  void OnResponse(const grpc::Status&, const std::string*) override {}

 private:
  const std::string path_;
};

}  // namespace

bool MayPass(std::string_view path) {
  const std::string_view method = RuntimeMethod(path);
  if (!method.empty()) return std::ranges::find(kRelayed, method) != kRelayed.end();
  return path.starts_with("/runtime.v1.ImageService/") ||
         path.starts_with("/runtime.v1alpha2.ImageService/") || path.starts_with("/grpc.");
}

std::unique_ptr<proxy::CallHandler> MakeUnsupported(const std::string& path) {
  return std::make_unique<Unsupported>(path);
}

}  // namespace alignd::cri
