#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <utility>

#include "alignd/memorymanager/static_policy.h"
#include "core/memorymanager/memory_groups.h"
#include "core/memorymanager/memory_hints.h"
#include "core/memorymanager/memory_request.h"
#include "core/memorymanager/node_choice.h"

namespace alignd::memorymanager {
namespace {

using topologymanager::Hints;
using topologymanager::TopologyHint;

Error Refused(std::string text) {
  return {ErrorCode::kInvalidArgument, "[memorymanager] " + std::move(text)};
}

// Without an affinity: the best set with enough memory. A set that is not preferred is accepted
// only if the merged hint is not preferred. `exact` becomes false if the search ends at its limit.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, getDefaultHint.
Result<TopologyHint> DefaultHint(const Hints& hints, const TopologyHint& promised, bool& exact) {
  const std::optional<BestHint> best = BestOf(hints);
  if (!best) {
    return Refused(
        "failed to get the default NUMA affinity, no NUMA nodes with enough memory is available");
  }
  exact = exact && best->exact;
  if (!best->hint.preferred && promised.preferred) {
    return Refused("failed to find the default preferred hint");
  }
  return best->hint;
}

// The best set with enough memory that contains the nodes of the affinity. `exact` becomes false if
// the search ends at its limit.
// Source: policy_static.go, extendTopologyManagerHint.
Result<TopologyHint> ExtendedHint(const Hints& hints, const TopologyHint& promised, bool& exact) {
  const std::optional<BestHint> best = BestOf(hints, *promised.affinity);
  if (!best) return Refused("failed to find NUMA nodes to extend the current topology hint");
  exact = exact && best->exact;
  if (!best->hint.preferred && promised.preferred) {
    return Refused("failed to find the extended preferred hint");
  }
  return best->hint;
}

// Whether no other pod uses the node.
bool OnlyThisPodUses(const MemoryState& state, const Pod& pod, int node) {
  const auto pod_blocks = state.assignments.find(pod.uid);
  if (pod_blocks == state.assignments.end()) return false;
  int own = 0;
  for (const auto& [container, blocks] : pod_blocks->second) {
    own += static_cast<int>(std::ranges::count_if(blocks, [&](const Block& block) {
      return std::ranges::binary_search(block.numa_affinity, node);
    }));
  }
  return own == state.machine.at(node).number_of_assignments;
}

// Whether all init containers in the pod have ended: the others are not known. A pod with pod-level
// resources can be decided as one that is not complete although it is.
bool KnowsOnlyEnded(const Pod& pod) { return !pod.is_complete && !HasPodLevelResources(pod); }

// Releases what is left to the init containers from which a container of the pod has taken memory.
// Otherwise it is released when that container starts, by the roles in the pod. Of a pod that is
// not complete, only those are known after a restart that marks have, and the name can be that of a
// container of an earlier sandbox, which needs all of its memory again.
void ReleaseRests(const Pod& pod, const std::map<std::string, std::vector<Block>>& before,
                  MemoryState& state) {
  for (const auto& [name, blocks] : before) {
    const ContainerKey key{pod.uid, name};
    if (*state.Find(key) != blocks) ReleaseContainer(key, state);
  }
}

}  // namespace

Result<NumaMask> ChooseNodes(const Machine& machine, const MemoryState& state, const Pod& pod,
                             const MemoryRequest& request, const TopologyHint& affinity,
                             bool& exact) {
  TopologyHint chosen = affinity;
  if (!chosen.affinity) {
    const Result<TopologyHint> found =
        DefaultHint(HintsOver(machine, state, pod, request), affinity, exact);
    if (!found.ok()) return found.error();
    chosen = *found;
  }
  const bool tears_group =
      chosen.affinity->Count() == 1 && !GroupsAllow(machine, state, *chosen.affinity);
  const bool fits = HaveFree(machine, state, *chosen.affinity, request);
  if (tears_group || !fits) {
    const bool own_group =
        fits && OnlyThisPodUses(state, pod, machine.NumaIds(*chosen.affinity).front());
    const Result<TopologyHint> found =
        ExtendedHint(own_group ? Hints() : HintsOver(machine, state, pod, request), chosen, exact);
    if (!found.ok()) return found.error();
    chosen = *found;
  }
  if (!GroupsAllow(machine, state, *chosen.affinity)) {
    return Refused("preferred hint violates NUMA node allocation");
  }
  return *chosen.affinity;
}

Result<Done> CheckTypes(const MemoryState& state, const MemoryRequest& request) {
  for (const auto& entry : request) {
    const bool known = std::ranges::any_of(
        state.machine, [&](const auto& node) { return node.second.tables.contains(entry.first); });
    if (!known) return Refused("the machine has no memory of type \"" + entry.first + "\"");
  }
  return Done{};
}

void MustBeZero(uint64_t unbooked) {
  if (unbooked == 0) return;
  std::fprintf(stderr, "alignd: %llu bytes of memory did not fit on the nodes chosen for them\n",
               static_cast<unsigned long long>(unbooked));
  std::abort();
}

Placement Allocate(const Machine& machine, const StaticPolicy& /*policy*/, const Pod& pod,
                   const Container& container, const TopologyHint& affinity, MemoryState& state) {
  // Differs: an ended init container is not assigned memory again; the kubelet reserves memory for
  // it again after a restart.
  if (!PinsMemory(pod) || HasEnded(state, pod, container)) return {};
  if (state.Find({pod.uid, container.name}) != nullptr) return {};
  // From before topology scope container was configured: the memory is reserved for the pod.
  if (state.pods.contains(pod.uid)) return {};

  const Result<MemoryRequest> request = RequestOf(pod, container);
  if (!request.ok()) return {UnexpectedAdmissionError(request.error().message)};
  if (request->empty()) {
    // Its memory is that of any NUMA node.
    if (HasPodLevelResources(pod) || !IsPinned(pod)) return {};
    // The kubelet has an entry for every container of a Guaranteed pod, also for one that requests
    // no memory, as is possible if status.qosClass says Guaranteed. Differs: without an affinity,
    // or with one that cuts through a group, the kubelet refuses it for want of memory.
    state.assignments[pod.uid][container.name] = {};
    return {};
  }
  if (const Result<Done> known = CheckTypes(state, *request); !known.ok()) {
    return {UnexpectedAdmissionError(known.error().message)};
  }
  bool exact = true;
  const Result<NumaMask> nodes = ChooseNodes(machine, state, pod, *request, affinity, exact);
  if (!nodes.ok()) return {UnexpectedAdmissionError(nodes.error().message), exact};

  const std::vector<int> ids = machine.NumaIds(*nodes);
  std::map<std::string, std::vector<Block>> before;
  if (KnowsOnlyEnded(pod) && state.assignments.contains(pod.uid)) {
    before = state.assignments.at(pod.uid);
  }
  std::vector<Block> blocks;
  for (const auto& [type, bytes] : *request) {
    blocks.push_back({.numa_affinity = ids, .type = type, .size = bytes});
    const uint64_t reused = TakeFromInitContainers(pod, ids, type, bytes, state);
    MustBeZero(Book(ids, type, bytes - reused, state.machine));
  }
  state.assignments[pod.uid][container.name] = std::move(blocks);
  ReleaseRests(pod, before, state);
  return {std::nullopt, exact};
}

void ContainerStarts(const Pod& pod, const std::string& container, MemoryState& state) {
  for (const Container& earlier : pod.containers) {
    if (earlier.name == container) return;
    if (earlier.kind != ContainerKind::kInit) continue;
    // Only the last entry of a pod with memory as a whole releases memory. The pod goes on.
    const auto entries = state.assignments.find(pod.uid);
    const bool is_last = entries != state.assignments.end() && entries->second.size() == 1;
    if (is_last && state.pods.contains(pod.uid)) continue;
    ReleaseContainer({pod.uid, earlier.name}, state);
  }
}

void ReleaseContainer(const ContainerKey& key, MemoryState& state) {
  const std::vector<Block>* assigned = state.Find(key);
  if (assigned == nullptr) return;
  if (!state.pods.contains(key.pod_uid)) {
    for (const Block& block : *assigned) GiveBack(block, state.machine);
  }
  auto& containers = state.assignments[key.pod_uid];
  containers.erase(key.container);
  if (containers.empty()) ReleasePod(key.pod_uid, state);
}

void ReleasePod(const std::string& pod_uid, MemoryState& state) {
  for (const Block& block : state.BookedFor(pod_uid)) GiveBack(block, state.machine);
  state.assignments.erase(pod_uid);
  state.pods.erase(pod_uid);
}

MemoryState AfterRefusal(const std::string& pod_uid, const MemoryState& before,
                         MemoryState partial) {
  if (before.assignments.contains(pod_uid)) return before;
  ReleasePod(pod_uid, partial);
  return partial;
}

}  // namespace alignd::memorymanager
