// Calls by method and code, and what alignd adds to them.
#pragma once

#include <grpcpp/support/status.h>

#include <array>
#include <cstddef>
#include <string_view>
#include <vector>

#include "metrics/families.h"
#include "metrics/instruments.h"
#include "proxy/call_events.h"

namespace alignd::metrics {

// The methods of RuntimeService and ImageService in Kubernetes 1.36, sorted; last `other`, for all
// other paths: a caller that makes up methods cannot make the page grow.
inline constexpr auto kMethods = std::to_array<std::string_view>({"Attach",
                                                                  "CheckpointContainer",
                                                                  "ContainerStats",
                                                                  "ContainerStatus",
                                                                  "CreateContainer",
                                                                  "Exec",
                                                                  "ExecSync",
                                                                  "GetContainerEvents",
                                                                  "ImageFsInfo",
                                                                  "ImageStatus",
                                                                  "ListContainerStats",
                                                                  "ListContainers",
                                                                  "ListImages",
                                                                  "ListMetricDescriptors",
                                                                  "ListPodSandbox",
                                                                  "ListPodSandboxMetrics",
                                                                  "ListPodSandboxStats",
                                                                  "PodSandboxStats",
                                                                  "PodSandboxStatus",
                                                                  "PortForward",
                                                                  "PullImage",
                                                                  "RemoveContainer",
                                                                  "RemoveImage",
                                                                  "RemovePodSandbox",
                                                                  "ReopenContainerLog",
                                                                  "RunPodSandbox",
                                                                  "RuntimeConfig",
                                                                  "StartContainer",
                                                                  "Status",
                                                                  "StopContainer",
                                                                  "StopPodSandbox",
                                                                  "StreamContainerStats",
                                                                  "StreamContainers",
                                                                  "StreamImages",
                                                                  "StreamPodSandboxMetrics",
                                                                  "StreamPodSandboxStats",
                                                                  "StreamPodSandboxes",
                                                                  "UpdateContainerResources",
                                                                  "UpdatePodSandboxResources",
                                                                  "UpdateRuntimeConfig",
                                                                  "Version",
                                                                  "other"});

// The index in kMethods of "/runtime.v1.RuntimeService/CreateContainer".
size_t MethodOf(std::string_view path);

// Thread-safe; never waits.
class CallMetrics final : public proxy::CallEvents {
 public:
  CallMetrics();

  void Begun() override { begun_.Add(); }
  void Ended(const proxy::CallReport& report) override;

  void Collect(Families& families) const;

 private:
  static constexpr size_t kCodes = 17;  // of gRPC

  struct OfMethod {
    std::array<Counter, kCodes> ended;
    Histogram added;
    OfMethod();
  };

  Counter begun_;
  Counter ended_;
  std::vector<OfMethod> methods_;  // by MethodOf; its size is constant
};

}  // namespace alignd::metrics
