#include "cri/pod_level_sizes.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "alignd/admission/pod_level.h"
#include "alignd/pod/pod.h"

namespace alignd::cri {
namespace {

using podsource::PodAsk;

bool HasPodAsWhole(const admission::NodeState& state, const std::string& pod_uid) {
  return state.cpu.pods.contains(pod_uid) || state.memory.pods.contains(pod_uid);
}

bool HasPartOfPod(const admission::NodeState& state, const std::string& pod_uid) {
  return state.cpu.assignments.contains(pod_uid) || state.memory.assignments.contains(pod_uid);
}

bool NeedsPodAsWhole(const admission::Node& node, const Pod& pod) {
  return (node.cpu && WholePodCpus(pod) > 0) || (node.memory && PinsMemory(pod));
}

Error SizesAreUnknown(const PodAsk& ask, const std::string& container) {
  return {ErrorCode::kUnavailable,
          ask.source + ": container " + container +
              ": its pod has pod-level resources, and not all of its sizes are known, so that it "
              "cannot be assigned CPUs and memory",
          "wait until the kubelet has made the resize, or undo it in the Kubernetes API; or delete "
          "the pod"};
}

}  // namespace

Result<PodAsk> WithPodLevelSizes(const HandlerContext& context, PodAsk ask,
                                 const std::string& container) {
  if (!ask.states_pod_level) return ask;
  const auto own = std::ranges::find(ask.pod.containers, container, &Container::name);
  if (own == ask.pod.containers.end()) return ask;
  Pod whole = ask.pod;
  whole.is_complete = true;
  whole.pod_level_managers = admission::PodLevelManagersOf(context.node, whole);
  const std::shared_ptr<const allocation::Snapshot> snapshot = context.allocation.snapshot();
  const admission::NodeState& state = snapshot->state;
  if (whole.pod_level_managers == PodLevelManagers::kOff || HasPodAsWhole(state, whole.uid))
    return ask;
  const bool is_begun = HasPartOfPod(state, whole.uid);
  if (whole.pod_level_managers == PodLevelManagers::kPod && !is_begun) {
    if (NeedsPodAsWhole(context.node, whole)) return SizesAreUnknown(ask, container);
    return ask;
  }
  if (!IsEligible(whole, *own)) return ask;
  Pod alone = ask.pod;
  alone.pod_level.reset();
  const CpuSet* const assigned = state.cpu.Find({whole.uid, container});
  if (assigned != nullptr) {
    // More CPUs are a resize, which is refused. It can have more than CRI says if its pod was
    // decided by the sizes that are pending.
    if (ExclusiveCpus(alone, *own) <= assigned->Count()) ask.pod = std::move(alone);
    return ask;
  }
  // A pod that was begun container by container goes on so only in that scope.
  if (whole.pod_level_managers == PodLevelManagers::kPod) return ask;
  if (ask.is_annotated) return SizesAreUnknown(ask, container);
  ask.pod = std::move(alone);
  return ask;
}

}  // namespace alignd::cri
