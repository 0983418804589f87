// The handlers of the intercepted methods, one file each; container_handlers.h has the table.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "allocation/allocation_manager.h"
#include "cri/container_handlers.h"
#include "podsource/resource_source.h"
#include "proxy/forwarder.h"

namespace alignd::cri {

using Decide = std::function<void(proxy::CallHandler::Decision)>;

// `context` is copied.
std::unique_ptr<proxy::CallHandler> MakeRunPodSandbox(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeCreateContainer(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeStartContainer(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeUpdateContainerResources(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeStopPodSandbox(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeRemovePodSandbox(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeStopContainer(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeRemoveContainer(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeContainerStatus(const HandlerContext& context);

// Has the pod decided; `wanted` and `counted` as in AllocationManager::Admit. Where it fits only
// without what stopped pods still hold, those are released, as the kubelet does before every
// admission.
void AdmitReleasingStopped(const HandlerContext& context, const podsource::PodAsk& ask,
                           const std::string& wanted,
                           const allocation::KubeletAllocatedPod& counted,
                           std::function<void(allocation::Outcome)> done);

// Whether there is nothing to inject, so that a request goes on as it came.
bool IsEmpty(const admission::Assignment& grant);

// "namespace/name".
std::string NameOf(const Pod& pod);

}  // namespace alignd::cri
