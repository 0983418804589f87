// The handlers of the intercepted methods, one file each; container_handlers.h has the table.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "allocation/allocation_manager.h"
#include "cri/container_handlers.h"
#include "cri/forwarder.h"
#include "podsource/resource_source.h"

namespace alignd::cri {

using Decide = std::function<void(CallHandler::Decision)>;

// `context` is copied.
std::unique_ptr<CallHandler> MakeRunPodSandbox(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeCreateContainer(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeStartContainer(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeUpdateContainerResources(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeUpdatePodSandboxResources(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeStopPodSandbox(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeRemovePodSandbox(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeStopContainer(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeRemoveContainer(const HandlerContext& context);
std::unique_ptr<CallHandler> MakeContainerStatus(const HandlerContext& context);

// Has the pod decided; `wanted` and `counted` as in AllocationManager::Admit. Where it fits only
// without what stopped pods still hold, those are released, as the kubelet does before every
// admission.
void AdmitMakingRoom(const HandlerContext& context, const podsource::PodAsk& ask,
                     const std::string& wanted, const allocation::CountedPod& counted,
                     std::function<void(allocation::Outcome)> done);

// Whether there is nothing to inject, so that a request goes on as it came.
bool IsEmpty(const admission::Grant& grant);

// "namespace/name".
std::string NameOf(const Pod& pod);

}  // namespace alignd::cri
