// Hints: on which sets of NUMA nodes a request can be satisfied.
#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "alignd/base/numa_subsets.h"
#include "alignd/cpumanager/static_policy.h"
#include "core/cpumanager/core_sum.h"
#include "core/cpumanager/core_use.h"
#include "core/cpumanager/node_cpus.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::Demand;
using topologymanager::DescribedHints;
using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

// The fewest NUMA nodes that have `request` CPUs in all, taken and reserved ones included. All of
// them if the request is larger than the machine.
int FewestNodes(const Machine& machine, int64_t request) {
  std::vector<int> sizes;
  for (const int node : machine.numa_with_cpus()) sizes.push_back(machine.CpusInNuma(node).Count());
  std::ranges::sort(sizes, std::greater<>());
  int nodes = 0;
  for (int cpus = 0; nodes < static_cast<int>(sizes.size()) && cpus < request; ++nodes) {
    cpus += sizes[static_cast<size_t>(nodes)];
  }
  return nodes;
}

// align-by-socket: preferred are also sets that touch as many sockets as the fewest nodes fill.
// Source: policy_static.go, isHintSocketAligned.
void PreferWholeSockets(const Machine& machine, DescribedHints& hints) {
  const int sockets = static_cast<int>(machine.sockets().size());
  const int nodes_per_socket = machine.numa_with_cpus().Count() / sockets;
  if (nodes_per_socket == 0) return;
  hints.preferred_groups = (hints.preferred_nodes + nodes_per_socket - 1) / nodes_per_socket;
  for (const CpuGroup& socket : machine.sockets()) {
    hints.groups.push_back(machine.NumaOf(socket.cpus));
  }
}

HintsByResource CpuHints(Hints hints) { return {{"cpu", std::move(hints)}}; }

CpuSet Reusable(const CpuState& state, const Pod& pod) {
  const auto reusable = state.reusable.find(pod.uid);
  return reusable == state.reusable.end() ? CpuSet{} : reusable->second - state.offline;
}

// Whether a number of CPUs does not say whether whole cores have as many.
bool HasOddCores(const Machine& machine) {
  return std::ranges::any_of(machine.cores(), [&](const CpuGroup& core) {
    return core.cpus.Count() != machine.cpus_per_core();
  });
}

// Whether whole cores of these CPUs have `count` CPUs in all.
bool AddUp(const Machine& machine, const CpuSet& cpus, int64_t count) {
  std::vector<const CpuGroup*> cores;
  for (const CpuGroup& core : machine.cores()) {
    if (cpus.Contains(core.cpus)) cores.push_back(&core);
  }
  return count <= cpus.Count() && CoreSum(std::move(cores), static_cast<int>(count)).IsPossible();
}

// With CoreUse::kWhole, of the hints those for sets of NUMA nodes with whole cores that have
// exactly `request` CPUs in all. Preferred is the smallest number of nodes that has such cores,
// taken and reserved ones included.
Hints WholeCoreHints(const Machine& machine, const Hints& hints, const CpuSet& offered,
                     int64_t request) {
  if (hints.described() == nullptr) return hints;
  DescribedHints described = *hints.described();
  described.preferred_nodes = 0;
  ForEachSubset(machine.numa_with_cpus(), [&](NumaMask nodes) {
    if (described.preferred_nodes == 0 && AddUp(machine, machine.CpusInNuma(nodes), request)) {
      described.preferred_nodes = nodes.Count();
    }
  });
  HintList whole;
  for (const TopologyHint& hint : hints.All()) {
    if (!AddUp(machine, offered & machine.CpusInNuma(*hint.affinity), request)) continue;
    whole.push_back({hint.affinity, described.IsPreferred(*hint.affinity)});
  }
  return whole;
}

Hints OfferedHints(const Machine& machine, const StaticPolicy& policy, const CpuSet& free,
                   const CpuSet& reusable, const CpuSet& held, int64_t request) {
  const CpuSet offered = Offered(machine, policy, free | reusable, reusable, held);
  Hints hints = HintsOver(machine, policy.options, offered, offered & reusable, request);
  // More sets are too many to list: their containers are refused when their CPUs are chosen.
  const bool is_listed = machine.numa_with_cpus().Count() <= Hints::kNodesShownFully;
  if (policy.cores != CoreUse::kWhole || !is_listed || !HasOddCores(machine)) return hints;
  return WholeCoreHints(machine, hints, offered, request);
}

}  // namespace

Hints HintsOver(const Machine& machine, const PolicyOptions& options, const CpuSet& available,
                const CpuSet& reusable, int64_t request) {
  DescribedHints hints{.sets = {.within = machine.numa_with_cpus(), .demands = {}},
                       .preferred_nodes = FewestNodes(machine, request),
                       .groups = {},
                       .preferred_groups = 0,
                       .exact = true};
  const CpuSet usable = available | reusable;
  Demand& cpus = hints.sets.demands.emplace_back();
  cpus.wanted = static_cast<uint64_t>(request);
  for (const int node : machine.numa_with_cpus()) {
    const int on_node = machine.CpusInNuma(node).CountCommon(usable);
    cpus.places.push_back({NumaMask::Of(node), static_cast<uint64_t>(on_node)});
  }
  if (!reusable.empty()) {
    Demand& nodes_of_reusable = hints.sets.demands.emplace_back();
    for (const int node : machine.NumaOf(reusable)) {
      nodes_of_reusable.places.push_back({NumaMask::Of(node), 1});
      ++nodes_of_reusable.wanted;
    }
  }
  if (options.align_by_socket) PreferWholeSockets(machine, hints);
  return Hints(HintList(), std::move(hints));
}

HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& policy,
                               const CpuState& state, const Pod& pod, const Container& container) {
  const int64_t request = ExclusiveCpuCount(pod, container);
  if (request == 0) return {};
  if (const CpuSet* assigned = state.Find({pod.uid, container.name})) {
    if (assigned->Count() != request) return CpuHints({});
    return CpuHints(HintsOver(machine, policy.options, *assigned, {}, request));
  }
  return CpuHints(OfferedHints(machine, policy, state.default_set - policy.reserved,
                               Reusable(state, pod), NotReusable(state, pod.uid), request));
}

HintsByResource PodHints(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                         const Pod& pod) {
  const int64_t request = PodExclusiveCpus(pod);
  if (request == 0) return {};
  CpuSet pod_cpus;
  for (const Container& container : pod.containers) {
    const CpuSet* assigned = state.Find({pod.uid, container.name});
    if (assigned == nullptr) continue;
    if (assigned->Count() != ExclusiveCpuCount(pod, container)) return CpuHints({});
    pod_cpus |= *assigned;
  }
  if (pod_cpus.Count() == request) {
    return CpuHints(HintsOver(machine, policy.options, pod_cpus, {}, request));
  }
  // What the pod has already is a part of its request.
  return CpuHints(OfferedHints(machine, policy, state.default_set - policy.reserved,
                               Reusable(state, pod) | (pod_cpus - state.offline), {}, request));
}

}  // namespace alignd::cpumanager
