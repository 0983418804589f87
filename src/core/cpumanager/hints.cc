// Hints: on which sets of NUMA nodes a request can be satisfied.
#include <algorithm>
#include <functional>
#include <vector>

#include "alignd/base/numa_subsets.h"
#include "alignd/cpumanager/static_policy.h"

namespace alignd::cpumanager {
namespace {

using topologymanager::HintList;
using topologymanager::HintsByResource;

// The fewest NUMA nodes that have `request` CPUs in all, taken and reserved ones included. All of
// them if the request is larger than the machine.
int FewestNodes(const Machine& machine, int request) {
  std::vector<int> sizes;
  for (const int node : machine.numa_with_cpus()) sizes.push_back(machine.CpusInNuma(node).Count());
  std::ranges::sort(sizes, std::greater<>());
  int nodes = 0;
  for (int cpus = 0; nodes < static_cast<int>(sizes.size()) && cpus < request; ++nodes) {
    cpus += sizes[static_cast<size_t>(nodes)];
  }
  return nodes;
}

// Whether the nodes touch as many sockets as the fewest nodes would fill.
// Source: policy_static.go, isHintSocketAligned.
bool IsSocketAligned(const Machine& machine, NumaMask nodes, int fewest_nodes) {
  const int sockets = static_cast<int>(machine.sockets().size());
  const int nodes_per_socket = machine.numa_with_cpus().Count() / sockets;
  if (nodes_per_socket == 0) return false;
  const int fewest_sockets = (fewest_nodes + nodes_per_socket - 1) / nodes_per_socket;
  const CpuSet cpus = machine.CpusInNuma(nodes);
  const auto touched = std::ranges::count_if(
      machine.sockets(), [&](const CpuGroup& socket) { return socket.cpus.Intersects(cpus); });
  return touched == fewest_sockets;
}

// A hint for every set of NUMA nodes that holds all of `reusable` and, with `available`, `request`
// CPUs: smaller sets first. Only sets of nodes that have CPUs.
// Source: policy_static.go, generateCPUTopologyHints.
HintList MakeHints(const Machine& machine, const PolicyOptions& options, const CpuSet& available,
                   const CpuSet& reusable, int request) {
  const CpuSet usable = available | reusable;
  if (usable.Count() < request) return {};
  const NumaMask must_hold = machine.NumaOf(reusable);
  const int fewest_nodes = FewestNodes(machine, request);
  std::vector<int> usable_on;  // by position
  for (int node = 0; node < machine.numa_count(); ++node) {
    usable_on.push_back(machine.CpusInNuma(node).CountCommon(usable));
  }

  HintList hints;
  ForEachSubset(machine.numa_with_cpus(), [&](NumaMask nodes) {
    int cpus = 0;
    for (const int node : nodes) cpus += usable_on[static_cast<size_t>(node)];
    if (cpus < request || !nodes.Contains(must_hold)) return;
    const bool preferred =
        nodes.Count() == fewest_nodes ||
        (options.align_by_socket && IsSocketAligned(machine, nodes, fewest_nodes));
    hints.push_back({.affinity = nodes, .preferred = preferred});
  });
  return hints;
}

HintsByResource CpuHints(HintList hints) { return {{"cpu", std::move(hints)}}; }

CpuSet Reusable(const CpuState& state, const Pod& pod) {
  const auto reusable = state.reusable.find(pod.uid);
  return reusable == state.reusable.end() ? CpuSet{} : reusable->second;
}

// What the pod needs at its busiest moment: all that keeps running, or an init container next to
// the sidecars before it. Source: policy_static.go, podGuaranteedCPUs.
int PodExclusiveCpus(const Pod& pod) {
  int apps = 0;
  int sidecars = 0;
  int init_peak = 0;
  for (const Container& container : pod.containers) {
    const int cpus = ExclusiveCpus(pod, container);
    switch (container.kind) {
      case ContainerKind::kApp:
        apps += cpus;
        break;
      case ContainerKind::kSidecar:
        sidecars += cpus;
        break;
      case ContainerKind::kInit:
        init_peak = std::max(init_peak, sidecars + cpus);
        break;
    }
  }
  return std::max(apps + sidecars, init_peak);
}

}  // namespace

HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& policy,
                               const CpuState& state, const Pod& pod, const Container& container) {
  const int request = ExclusiveCpus(pod, container);
  if (request == 0) return {};
  if (const CpuSet* held = state.Find({pod.uid, container.name})) {
    if (held->Count() != request) return CpuHints({});
    return CpuHints(MakeHints(machine, policy.options, *held, {}, request));
  }
  return CpuHints(MakeHints(machine, policy.options, state.default_set - policy.reserved,
                            Reusable(state, pod), request));
}

HintsByResource PodHints(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                         const Pod& pod) {
  const int request = PodExclusiveCpus(pod);
  if (request == 0) return {};
  CpuSet held_by_pod;
  for (const Container& container : pod.containers) {
    const CpuSet* held = state.Find({pod.uid, container.name});
    if (held == nullptr) continue;
    if (held->Count() != ExclusiveCpus(pod, container)) return CpuHints({});
    held_by_pod |= *held;
  }
  if (held_by_pod.Count() == request) {
    return CpuHints(MakeHints(machine, policy.options, held_by_pod, {}, request));
  }
  return CpuHints(MakeHints(machine, policy.options, state.default_set - policy.reserved,
                            Reusable(state, pod) | held_by_pod, request));
}

}  // namespace alignd::cpumanager
