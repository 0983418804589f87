#include "core/memorymanager/memory_hints.h"

#include <algorithm>

#include "alignd/base/numa_subsets.h"
#include "alignd/memorymanager/static_policy.h"
#include "core/memorymanager/memory_groups.h"

namespace alignd::memorymanager {

using topologymanager::HintList;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

namespace {

// The hints of one who already has blocks: exactly their nodes. No opinion if they are not what is
// requested.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, regenerateHints.
HintsByResource HintsOfHolder(const Machine& machine, const std::vector<Block>& blocks,
                              const MemoryRequest& request) {
  HintsByResource hints;
  if (blocks.size() != request.size()) return {};
  for (const Block& block : blocks) {
    const auto wanted = request.find(block.type);
    if (wanted == request.end() || wanted->second != block.size) return {};
    const NumaMask nodes =
        machine.MaskOfIds({block.numa_affinity.begin(), block.numa_affinity.end()});
    hints[block.type] = HintList{{.affinity = nodes, .preferred = true}};
  }
  return hints;
}

// All types get the same sets. Where nothing fits there is no opinion at all, and Allocate refuses.
HintsByResource HintsForNew(const Machine& machine, const MemoryState& state, const Pod& pod,
                            const MemoryRequest& request) {
  HintsByResource hints;
  const HintList sets = HintsOver(machine, state, pod, request);
  if (sets.empty()) return hints;
  for (const auto& [type, bytes] : request) hints[type] = sets;
  return hints;
}

}  // namespace

HintList HintsOver(const Machine& machine, const MemoryState& state, const Pod& pod,
                   const MemoryRequest& request) {
  int smallest = machine.numa_count();
  HintList hints;
  ForEachSubset(machine.all_numa(), [&](NumaMask nodes) {
    if (!HaveAllocatable(machine, state, nodes, request)) return;
    smallest = std::min(smallest, nodes.Count());
    if (!GroupsAllow(machine, state, nodes)) return;
    if (!HaveFreeOrReusable(machine, state, pod, nodes, request)) return;
    hints.push_back({.affinity = nodes, .preferred = false});
  });
  for (TopologyHint& hint : hints) hint.preferred = hint.affinity->Count() == smallest;
  return hints;
}

std::optional<TopologyHint> BestOf(const HintList& hints) {
  const auto best = std::ranges::min_element(hints, [](const auto& a, const auto& b) {
    return a.preferred != b.preferred ? a.preferred : a.affinity->IsNarrowerThan(*b.affinity);
  });
  if (best == hints.end()) return std::nullopt;
  return *best;
}

bool HasEnded(const MemoryState& state, const Pod& pod, const Container& container) {
  if (container.kind != ContainerKind::kInit) return false;
  if (state.Find({pod.uid, container.name}) != nullptr) return false;
  const auto self = std::ranges::find(pod.containers, container.name, &Container::name);
  return std::any_of(self, pod.containers.end(), [&](const Container& later) {
    return state.Find({pod.uid, later.name}) != nullptr;
  });
}

HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& /*policy*/,
                               const MemoryState& state, const Pod& pod,
                               const Container& container) {
  if (!IsPinned(pod) || HasEnded(state, pod, container)) return {};
  const Result<MemoryRequest> request = RequestOf(container);
  if (!request.ok()) return {};  // Allocate refuses with the error
  if (const std::vector<Block>* blocks = state.Find({pod.uid, container.name})) {
    return HintsOfHolder(machine, *blocks, *request);
  }
  return HintsForNew(machine, state, pod, *request);
}

HintsByResource PodHints(const Machine& machine, const StaticPolicy& /*policy*/,
                         const MemoryState& state, const Pod& pod) {
  if (!IsPinned(pod)) return {};
  const Result<MemoryRequest> request = RequestOf(pod);
  if (!request.ok()) return {};  // Allocate refuses with the error
  for (const Container& container : pod.containers) {
    if (const std::vector<Block>* blocks = state.Find({pod.uid, container.name})) {
      return HintsOfHolder(machine, *blocks, *request);
    }
  }
  return HintsForNew(machine, state, pod, *request);
}

}  // namespace alignd::memorymanager
