// What the handlers of the intercepted methods share. Each method has a file of its own, named
// after it; container_handlers.h has the table.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "allocation/allocation_manager.h"
#include "cri/container_handlers.h"
#include "podsource/resource_source.h"
#include "proxy/forwarder.h"

namespace runtime::v1 {
class ContainerConfig;
}

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
std::unique_ptr<proxy::CallHandler> MakeRestorePod(const HandlerContext& context);
std::unique_ptr<proxy::CallHandler> MakeRuntimeConfig(const HandlerContext& context);

// A callback for any thread: it has the handler's method `step` run on the events thread. So all
// steps of a call run on that one thread, the handler's members need no lock, and the thread that
// runs the callback (decision, background, `calls`, `plugins`) only posts. A step parses or
// serialises one request, which takes less time than the wake-up of a thread; so it needs no thread
// of its own. `decide` keeps the handler alive; after the events loop has stopped, the callback
// only drops it.
template <typename Handler, typename Argument>
std::function<void(Argument)> NextStep(const HandlerContext& context, Handler* handler,
                                       void (Handler::*step)(Argument, Decide), Decide decide) {
  return [&events = context.events, handler, step, decide = std::move(decide)](Argument argument) {
    events.Post([handler, step, decide, argument = std::move(argument)]() mutable {
      (handler->*step)(std::move(argument), std::move(decide));
    });
  };
}

// Has the allocation manager decide about the pod. If the pod fits only without the resources of
// stopped pods, those pods are released, as the kubelet does before every admission. `request`
// comes without `stopped` and `describe`; its `wanted` is empty if the pod's sandbox is created
// now. `done` runs on the decision thread.
void AdmitPod(const HandlerContext& context, allocation::AdmissionRequest request,
              std::function<void(allocation::Outcome)> done);

// Marks the pod if containers of this runtime handler belong in the shared pool, and how its
// pod-level resources are managed (allocation::AsDecided). Before every use of a pod that a source
// of resources has described: those know neither.
void MarkHandler(const HandlerContext& context, const std::string& handler, Pod& pod);

// Sets the policies that the pod's sandbox asks for, without what a scheduler has decided about its
// creation: the source of a pod's resources may not know them.
void AddPolicies(const HandlerContext& context, Pod& pod);

// Whether the CFS quota of the pod's own cgroup is lifted when a container has exclusive CPUs.
bool LiftsPodQuota(const HandlerContext& context, const std::string& pod_uid);

// What the container is assigned now. In the shared pool of the node: without the CPUs that a
// resized container has not left yet; it gets these later.
admission::Assignment AssignmentNow(const HandlerContext& context, const ContainerKey& key);
// Takes those CPUs out of the assignment of a container of the shared pool.
void WithoutLeavingCpus(const HandlerContext& context, admission::Assignment& assignment);

// Writes the mark of the container's assignment into its annotations, and its id into its labels;
// no mark without an assignment. Only alignd writes it: one of a caller or of a plugin is replaced
// or removed.
void SetMark(const HandlerContext& context, const ContainerKey& key,
             runtime::v1::ContainerConfig& config);
// Whether there was one.
bool RemoveMark(runtime::v1::ContainerConfig& config);

// Whether there is nothing to inject, so that a request is forwarded as it came.
bool IsEmpty(const admission::Assignment& assignment);

// Whether the runtime gives a restored container other devices than the request has: CRI-O gives it
// those that the annotations of its checkpoint name, and takes no devices and no environment of the
// request.
bool RestoresOtherDevices(const HandlerContext& context);

// Why such a container is not restored. `checkpoint` begins the text.
Error NotRestored(const std::string& checkpoint);

// The name of a method of RuntimeService in a version that alignd knows; empty for any other path.
std::string_view RuntimeMethod(std::string_view path);

// UNAVAILABLE: the runtime has not been listed since the start, so it is not known which container
// is assigned what.
grpc::Status NotListed();

// Until when a call with that deadline may wait. It is answered before its caller gives up, so that
// the caller gets the reason.
std::chrono::steady_clock::time_point AnswerBy(
    const std::optional<std::chrono::steady_clock::time_point>& deadline);

// Reports the condition ConflictingCPUManager: the caller of `method` sets CPU sets of its own.
void ReportCallersCpuSet(const HandlerContext& context, const std::string& method);

// Reports the condition PodResizeRefused, and has the pod's cgroup keep what it had before the
// resize. Does nothing for another refusal.
void ReportRefusedResize(const HandlerContext& context, const ContainerKey& key,
                         const Refusal& refusal);

// The pod's UID, and its name and namespace as far as they are known.
Pod NamedPod(const HandlerContext& context, const std::string& pod_uid);

// Records the refused resize of a running container, and reports it as ReportRefusedResize does.
// Returns the answer to the caller.
grpc::Status RefuseInPlaceResize(const HandlerContext& context, const ContainerKey& key,
                                 const Refusal& refusal);

// "namespace/name".
std::string NameOf(const Pod& pod);

}  // namespace alignd::cri
