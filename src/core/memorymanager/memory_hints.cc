#include "core/memorymanager/memory_hints.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/memorymanager/static_policy.h"
#include "core/memorymanager/memory_groups.h"
#include "core/memorymanager/node_choice.h"

namespace alignd::memorymanager {

using topologymanager::Demand;
using topologymanager::DescribedHints;
using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::NodeSets;
using topologymanager::TopologyHint;

namespace {

NumaMask MaskOf(const Machine& machine, const std::vector<int>& ids) {
  NumaMask mask;
  for (const int id : ids) {
    if (const std::optional<int> position = machine.NumaPosition(id)) mask.Add(*position);
  }
  return mask;
}

// The unused nodes, and the groups of the others.
struct Groups {
  NumaMask unused;
  std::vector<NumaMask> used;  // each once
};

Groups GroupsOf(const Machine& machine, const MemoryState& state) {
  Groups groups;
  for (int position = 0; position < machine.numa_count(); ++position) {
    const NumaMemory& node = state.machine.at(machine.NumaId(position));
    if (node.number_of_assignments == 0) {
      groups.unused.Add(position);
    } else {
      groups.used.push_back(MaskOf(machine, node.cells));
    }
  }
  std::ranges::sort(groups.used);
  const auto repeated = std::unique(groups.used.begin(), groups.used.end());
  groups.used.erase(repeated, groups.used.end());
  return groups;
}

// Sets of the nodes `within` that have the requested amount in the column of every type.
NodeSets SetsWith(uint64_t MemoryTable::*column, const Machine& machine, const MemoryState& state,
                  NumaMask within, const MemoryRequest& request) {
  NodeSets sets{.within = within, .demands = {}};
  for (const auto& [type, bytes] : request) {
    Demand& demand = sets.demands.emplace_back();
    demand.wanted = bytes;
    for (const int position : within) {
      const NumaMemory& node = state.machine.at(machine.NumaId(position));
      const auto table = node.tables.find(type);
      if (table == node.tables.end() || table->second.*column == 0) continue;
      demand.places.push_back({NumaMask::Of(position), table->second.*column});
    }
  }
  return sets;
}

}  // namespace

HintsByResource HintsOfBlocks(const Machine& machine, const std::vector<Block>& blocks,
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

HintsByResource HintsForNew(const Machine& machine, const MemoryState& state, const Pod& pod,
                            const MemoryRequest& request) {
  HintsByResource hints;
  const Hints sets = HintsOver(machine, state, pod, request);
  if (sets.empty()) return hints;
  for (const auto& [type, bytes] : request) hints[type] = sets;
  return hints;
}

Hints HintsOver(const Machine& machine, const MemoryState& state, const Pod& pod,
                const MemoryRequest& request) {
  const std::optional<topologymanager::Fewest> smallest = topologymanager::FewestNodes(
      SetsWith(&MemoryTable::allocatable, machine, state, machine.all_numa(), request));
  if (!smallest) return {};
  const Groups groups = GroupsOf(machine, state);
  HintList listed;
  for (const NumaMask nodes : groups.used) {
    if (GroupsAllow(machine, state, nodes) && HaveAllocatable(machine, state, nodes, request) &&
        HaveFreeOrReusable(machine, state, pod, nodes, request)) {
      listed.push_back({nodes, nodes.Count() == smallest->nodes});
    }
  }
  std::ranges::sort(listed, [](const TopologyHint& a, const TopologyHint& b) {
    return a.affinity->IsNarrowerThan(*b.affinity);
  });
  // All memory of unused nodes is free, so no check of the allocatable memory is needed.
  return {std::move(listed),
          {.sets = SetsWith(&MemoryTable::free, machine, state, groups.unused, request),
           .preferred_nodes = smallest->nodes,
           .groups = {},
           .preferred_groups = 0,
           .exact = smallest->exact}};
}

std::optional<BestHint> BestOf(const Hints& hints, NumaMask containing) {
  std::optional<TopologyHint> best;
  bool exact = true;
  const auto offer = [&](const TopologyHint& hint) {
    if (best &&
        (best->preferred != hint.preferred ? best->preferred
                                           : !hint.affinity->IsNarrowerThan(*best->affinity))) {
      return;
    }
    best = hint;
  };
  for (const TopologyHint& hint : hints.listed()) {
    if (hint.affinity->Contains(containing)) offer(hint);
  }
  if (const DescribedHints* described = hints.described()) {
    // No set is narrower than the preferred ones, so the narrowest is preferred if any is.
    if (const auto narrowest = topologymanager::NarrowestSet(described->sets, containing)) {
      offer({narrowest->set, described->IsPreferred(narrowest->set)});
      exact = narrowest->exact;
    }
  }
  if (!best) return std::nullopt;
  return BestHint{*best, exact};
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
  if (!PinsMemory(pod) || HasEnded(state, pod, container)) return {};
  const Result<MemoryRequest> request = RequestOf(pod, container);
  if (!request.ok()) return {};  // Allocate refuses with the error
  if (const std::vector<Block>* blocks = state.Find({pod.uid, container.name})) {
    return HintsOfBlocks(machine, *blocks, *request);
  }
  if (state.pods.contains(pod.uid)) return {};
  return HintsForNew(machine, state, pod, *request);
}

HintsByResource PodHints(const Machine& machine, const StaticPolicy& /*policy*/,
                         const MemoryState& state, const Pod& pod) {
  if (!PinsMemory(pod)) return {};
  const Result<MemoryRequest> request = RequestOf(pod);
  if (!request.ok()) return {};  // Allocate refuses with the error
  for (const Container& container : pod.containers) {
    if (const std::vector<Block>* blocks = state.Find({pod.uid, container.name})) {
      return HintsOfBlocks(machine, *blocks, *request);
    }
  }
  return HintsForNew(machine, state, pod, *request);
}

}  // namespace alignd::memorymanager
