#include "alignd/memorymanager/pod_memory.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "alignd/base/saturating_sum.h"
#include "core/memorymanager/memory_groups.h"
#include "core/memorymanager/memory_request.h"
#include "core/memorymanager/node_choice.h"

namespace alignd::memorymanager {
namespace {

using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

using Requests = std::vector<MemoryRequest>;  // of the pod's containers, in its order

// What the containers are entitled to themselves; empty for shared containers.
Result<Requests> OwnRequests(const Pod& pod) {
  Requests requests;
  for (const Container& container : pod.containers) {
    Result<MemoryRequest> own = RequestOf(pod, container);
    if (!own.ok()) return own.error();
    std::erase_if(*own, [](const auto& entry) { return entry.second == 0; });
    requests.push_back(*std::move(own));
  }
  return requests;
}

uint64_t AmountIn(const MemoryRequest& request, const std::string& type) {
  const auto found = request.find(type);
  return found == request.end() ? 0 : found->second;
}

// Why the pod's shared containers would have no memory of some type; empty if they have some.
// Eligible init containers end before the others start, so they do not count. The kubelet's text
// says memory for huge pages too.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, validatePodScopeResources.
std::string WhyNoSharedMemory(const Pod& pod, const Requests& own, const MemoryRequest& budget) {
  for (const auto& [type, whole] : budget) {
    uint64_t exclusive = 0;  // of sidecars and apps so far
    bool has_shared = false;
    for (size_t i = 0; i < pod.containers.size(); ++i) {
      if (pod.containers[i].kind == ContainerKind::kInit) {
        if (own[i].empty() && exclusive >= whole) {
          return "pod rejected, pod has shared init containers but no " + type +
                 " available for them";
        }
        continue;
      }
      has_shared = has_shared || own[i].empty();
      exclusive = SaturatingSum(exclusive, AmountIn(own[i], type));
    }
    if (has_shared && exclusive >= whole) {
      return "pod rejected, sum of exclusive container " + type +
             " requests equals pod budget, leaving no memory for shared containers";
    }
  }
  return {};
}

std::vector<Block> BlocksOf(const MemoryRequest& request, const std::vector<int>& nodes) {
  std::vector<Block> blocks;
  for (const auto& [type, bytes] : request) {
    if (bytes > 0) blocks.push_back({.numa_affinity = nodes, .type = type, .size = bytes});
  }
  return blocks;
}

// The parts of all containers by name. A container has what no sidecar or app before it has of its
// own. Shared apps and sidecars run to the end, so they have what is free in the end.
Result<std::map<std::string, std::vector<Block>>> Divide(const Pod& pod, const Requests& own,
                                                         MemoryRequest pool,
                                                         const std::vector<int>& nodes) {
  std::map<std::string, std::vector<Block>> parts;
  for (size_t i = 0; i < pod.containers.size(); ++i) {
    const Container& container = pod.containers[i];
    if (own[i].empty()) {
      if (container.kind == ContainerKind::kInit) parts[container.name] = BlocksOf(pool, nodes);
      continue;
    }
    parts[container.name] = BlocksOf(own[i], nodes);
    for (const auto& [type, bytes] : own[i]) {
      if (bytes > AmountIn(pool, type)) {
        return Error{ErrorCode::kInvalidArgument, "[memorymanager] container " + container.name +
                                                      " requests more " + type +
                                                      " than its pod has available"};
      }
      if (container.kind != ContainerKind::kInit) pool[type] -= bytes;
    }
  }
  for (const Container& container : pod.containers) {
    parts.try_emplace(container.name, BlocksOf(pool, nodes));
  }
  return parts;
}

// Whether the containers have memory, but the pod has none as a whole: it was allocated without the
// feature gate, or in topology scope container.
bool IsStale(const MemoryState& state, const Pod& pod) {
  return state.assignments.contains(pod.uid) && !state.pods.contains(pod.uid);
}

}  // namespace

HintsByResource WholePodHints(const Machine& machine, const MemoryState& state, const Pod& pod) {
  const Result<MemoryRequest> budget = PodMemoryBudget(pod);
  const Result<Requests> own = OwnRequests(pod);
  if (!budget.ok() || budget->empty() || !own.ok()) return {};
  if (!WhyNoSharedMemory(pod, *own, *budget).empty()) {
    HintsByResource none;
    for (const auto& [type, bytes] : *budget) none[type] = topologymanager::Hints();
    return none;
  }
  if (const auto whole = state.pods.find(pod.uid); whole != state.pods.end()) {
    return HintsOfBlocks(machine, whole->second, *budget);
  }
  if (!IsStale(state, pod)) return HintsForNew(machine, state, pod, *budget);
  MemoryState released = state;
  ReleasePod(pod.uid, released);
  return HintsForNew(machine, released, pod, *budget);
}

Placement AllocateWholePod(const Machine& machine, const Pod& pod, const TopologyHint& affinity,
                           MemoryState& state) {
  const Result<MemoryRequest> budget = PodMemoryBudget(pod);
  const Result<Requests> own = OwnRequests(pod);
  if (!budget.ok() || budget->empty() || !own.ok()) return {};
  if (const std::string text = WhyNoSharedMemory(pod, *own, *budget); !text.empty()) {
    return {EmptyPodSharedPoolError(text)};
  }
  if (state.pods.contains(pod.uid)) return {};
  if (IsStale(state, pod)) ReleasePod(pod.uid, state);
  if (const Result<Done> known = CheckTypes(state, *budget); !known.ok()) {
    return {UnexpectedAdmissionError(known.error().message)};
  }
  bool exact = true;
  const Result<NumaMask> nodes = ChooseNodes(machine, state, pod, *budget, affinity, exact);
  if (!nodes.ok()) return {UnexpectedAdmissionError(nodes.error().message), exact};
  const std::vector<int> ids = machine.NumaIds(*nodes);
  auto parts = Divide(pod, *own, *budget, ids);
  if (!parts.ok()) return {UnexpectedAdmissionError(parts.error().message), exact};
  for (const auto& [type, bytes] : *budget) MustBeZero(Book(ids, type, bytes, state.machine));
  state.pods[pod.uid] = BlocksOf(*budget, ids);
  state.assignments[pod.uid] = *std::move(parts);
  return {std::nullopt, exact};
}

}  // namespace alignd::memorymanager
