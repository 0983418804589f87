#include <string>
#include <utility>

#include "cri/handlers.h"

namespace alignd::cri {

bool IsEmpty(const admission::Assignment& grant) {
  return grant.cpuset.empty() && grant.memory_nodes.empty() && grant.devices.empty();
}

std::string NameOf(const Pod& pod) { return pod.name_space + "/" + pod.name; }

void AdmitReleasingStopped(const HandlerContext& context, const podsource::PodAsk& ask,
                           const std::string& wanted,
                           const allocation::KubeletAllocatedPod& counted,
                           std::function<void(allocation::Outcome)> done) {
  context.allocation.Admit(
      {.pod = ask.pod,
       .source = ask.source,
       .wanted = wanted,
       .kubelet_allocated = counted,
       .stopped = [&registry = context.registry] { return registry.StoppedPods(); }},
      std::move(done));
}

}  // namespace alignd::cri
