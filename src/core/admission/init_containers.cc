#include "alignd/admission/init_containers.h"

#include <algorithm>

#include "alignd/cpumanager/static_policy.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::admission {
namespace {

// Whether every container that runs until the pod's end has the CPUs that it is entitled to.
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
  // One that the pod was not made with (for debugging) starts at any time.
  if (starting == pod.containers.end()) return;
  if (node.memory) memorymanager::ContainerStarts(pod, container, state.memory);
  if (starting->kind != ContainerKind::kApp) return;
  if (!OthersHaveTheirCpus(pod, state)) return;
  for (const Container& ended : pod.containers) {
    if (ended.kind != ContainerKind::kInit) continue;
    cpumanager::ReleaseContainer({pod.uid, ended.name}, state.cpu);
  }
}

void LendToInitContainers(const Node& node, const Pod& pod, NodeState& state) {
  if (!node.cpu || !OthersHaveTheirCpus(pod, state)) return;
  CpuSet lent;
  bool wanted = false;
  for (const Container& container : pod.containers) {
    const CpuSet* held = state.cpu.Find({pod.uid, container.name});
    if (container.kind == ContainerKind::kApp && held != nullptr) lent |= *held;
    wanted = wanted || (container.kind == ContainerKind::kInit && held == nullptr &&
                        ExclusiveCpus(pod, container) > 0);
  }
  if (wanted && !lent.empty()) state.cpu.reusable[pod.uid] |= lent;
}

}  // namespace alignd::admission
