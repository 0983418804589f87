#include "alignd/admission/init_containers.h"

#include <algorithm>

#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::admission {
namespace {

// Whether every container that is no init container has the CPUs that it is entitled to.
bool OthersHaveTheirCpus(const Pod& pod, const NodeState& state) {
  return std::ranges::all_of(pod.containers, [&](const Container& container) {
    return container.kind == ContainerKind::kInit || ExclusiveCpus(pod, container) == 0 ||
           state.cpu.Find({pod.uid, container.name}) != nullptr;
  });
}

}  // namespace

void ContainerStarts(const Node& node, const Pod& pod, const std::string& container,
                     NodeState& state) {
  const auto starting = std::ranges::find(pod.containers, container, &Container::name);
  // An ephemeral container (for debugging) is not in the pod and starts at any time.
  if (starting == pod.containers.end()) return;
  // What a pod has as a whole stays with it, and its init containers have parts of it. One that
  // runs once more, in a new sandbox, finds them.
  if (node.memory && !state.memory.pods.contains(pod.uid)) {
    memorymanager::ContainerStarts(pod, container, state.memory);
  }
  if (starting->kind != ContainerKind::kApp || state.cpu.pods.contains(pod.uid)) return;
  if (!OthersHaveTheirCpus(pod, state)) return;
  for (const Container& ended : pod.containers) {
    if (ended.kind != ContainerKind::kInit) continue;
    cpumanager::ReleaseContainer({pod.uid, ended.name}, state.cpu);
  }
}

void LendToInitContainers(const Node& node, const Pod& pod, NodeState& state) {
  if (!node.cpu || state.cpu.pods.contains(pod.uid) || !OthersHaveTheirCpus(pod, state)) return;
  CpuSet reusable;
  bool wanted = false;
  for (const Container& container : pod.containers) {
    const CpuSet* assigned = state.cpu.Find({pod.uid, container.name});
    if (container.kind == ContainerKind::kApp && assigned != nullptr) reusable |= *assigned;
    wanted = wanted || (container.kind == ContainerKind::kInit && assigned == nullptr &&
                        ExclusiveCpus(pod, container) > 0);
  }
  if (wanted && !reusable.empty()) state.cpu.reusable[pod.uid] |= reusable;
}

}  // namespace alignd::admission
