#include "cri/handlers.h"

#include <string>
#include <utility>

#include "rpc/grpc_status.h"

namespace alignd::cri {

bool IsEmpty(const admission::Assignment& assignment) {
  return assignment.cpuset.empty() && assignment.memory_nodes.empty() && assignment.devices.empty();
}

grpc::Status NotListed() {
  return rpc::ToStatus(Error{ErrorCode::kUnavailable,
                             "alignd has not yet listed what the runtime runs",
                             "retry; if this lasts, see alignd's log"});
}

void ReportCallersCpuSet(const HandlerContext& context, const std::string& method) {
  context.conditions.SawConflictingManager(
      method + " comes with CPU sets of the caller's own",
      "set the kubelet's cpuManagerPolicy to none, and let no other program set cpusets through "
      "this socket; alignd keeps its own sets");
}

std::string NameOf(const Pod& pod) { return pod.name_space + "/" + pod.name; }

void AdmitPod(const HandlerContext& context, podsource::PodAsk ask, std::string container,
              allocation::KubeletAllocatedPod kubelet_allocated,
              std::function<void(allocation::Outcome)> done) {
  context.allocation.Admit(
      {.pod = std::move(ask.pod),
       .source = std::move(ask.source),
       .wanted = std::move(container),
       .kubelet_allocated = std::move(kubelet_allocated),
       .stopped = [&registry = context.registry] { return registry.StoppedPods(); }},
      std::move(done));
}

}  // namespace alignd::cri
