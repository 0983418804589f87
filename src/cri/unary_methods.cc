#include "cri/unary_methods.h"

#include <algorithm>
#include <array>

namespace alignd::cri {
namespace {

// Sorted. Source: k8s.io/cri-api 0.36, pkg/apis/runtime/v1/api.proto.
constexpr std::array<std::string_view, 29> kOfRuntimeService = {"Attach",
                                                                "CheckpointContainer",
                                                                "ContainerStats",
                                                                "ContainerStatus",
                                                                "CreateContainer",
                                                                "Exec",
                                                                "ExecSync",
                                                                "ListContainerStats",
                                                                "ListContainers",
                                                                "ListMetricDescriptors",
                                                                "ListPodSandbox",
                                                                "ListPodSandboxMetrics",
                                                                "ListPodSandboxStats",
                                                                "PodSandboxStats",
                                                                "PodSandboxStatus",
                                                                "PortForward",
                                                                "RemoveContainer",
                                                                "RemovePodSandbox",
                                                                "ReopenContainerLog",
                                                                "RunPodSandbox",
                                                                "RuntimeConfig",
                                                                "StartContainer",
                                                                "Status",
                                                                "StopContainer",
                                                                "StopPodSandbox",
                                                                "UpdateContainerResources",
                                                                "UpdatePodSandboxResources",
                                                                "UpdateRuntimeConfig",
                                                                "Version"};
constexpr std::array<std::string_view, 5> kOfImageService = {
    "ImageFsInfo", "ImageStatus", "ListImages", "PullImage", "RemoveImage"};
static_assert(std::ranges::is_sorted(kOfRuntimeService));
static_assert(std::ranges::is_sorted(kOfImageService));

bool Strip(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

}  // namespace

bool IsUnaryMethod(std::string_view method) {
  if (!Strip(method, "/runtime.v1.") && !Strip(method, "/runtime.v1alpha2.")) return false;
  if (Strip(method, "RuntimeService/")) {
    return std::ranges::binary_search(kOfRuntimeService, method);
  }
  return Strip(method, "ImageService/") && std::ranges::binary_search(kOfImageService, method);
}

}  // namespace alignd::cri
