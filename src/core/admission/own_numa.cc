#include "core/admission/own_numa.h"

#include <algorithm>
#include <set>
#include <utility>

#include "alignd/admission/own_policy.h"
#include "alignd/cpumanager/node_shares.h"
#include "core/admission/own_defaults.h"

namespace alignd::admission {
namespace {

// Whether the pod itself asks for it: not if it has it by default in any case.
bool AsksItself(const Node& node, const Pod& pod) {
  return pod.policies.keeps_numa_apart && MayChoose(node, pod, PodPolicy::kNumaTopologyPolicy) &&
         !DefaultsOf(node, pod).keeps_numa_apart;
}

std::string AskedText(const Node& node, const Pod& pod) {
  if (AsksItself(node, pod)) {
    return "singleNUMANodeExclusive Required of annotation " + std::string(kNumaTopologyAnnotation);
  }
  return OfDefaults(pod, "singleNUMANodeExclusive", "Required");
}

// The NUMA nodes on which other pods have exclusive CPUs.
struct NumaUse {
  NumaMask single = {};   // only pods of one NUMA node
  NumaMask several = {};  // at least one pod of several
};

NumaUse UseByOthers(const Node& node, const NodeState& state, const std::string& pod_uid) {
  NumaUse use;
  for (const std::string& uid : PodsIn(state)) {
    if (uid == pod_uid) continue;
    const NumaMask nodes = node.machine.NumaOf(state.cpu.HeldBy(uid));
    NumaMask& known = nodes.Count() > 1 ? use.several : use.single;
    known = known | nodes;
  }
  use.single = use.single - use.several;
  return use;
}

// Where the pod is: by its exclusive CPUs and the NUMA nodes on which its shared containers stay,
// or, without any, by what it is aligned with.
NumaMask NodesOfPod(const Node& node, const Pod& pod, const Admission& admission) {
  NumaMask nodes = node.machine.NumaOf(admission.next.cpu.HeldBy(pod.uid));
  for (const auto& [name, assignment] : admission.assignments) {
    if (assignment.share) nodes = nodes | node.machine.MaskOfIds({assignment.share->numa_id});
  }
  if (!nodes.empty()) return nodes;
  NumaMask aligned;
  for (const ContainerDecision& decision : admission.decisions) {
    if (!decision.affinity || !decision.affinity->affinity) continue;
    aligned = aligned | *decision.affinity->affinity;
  }
  return aligned;
}

}  // namespace

bool IsKeptApart(const Node& node, const Pod& pod) {
  return FollowedPolicies(node, pod).keeps_numa_apart &&
         TopologyOf(node, pod).kind() != TopologyManagerPolicy::kNone;
}

bool MustKeepApart(const Node& node, const Pod& pod) {
  return IsKeptApart(node, pod) &&
         TopologyOf(node, pod).kind() != TopologyManagerPolicy::kBestEffort;
}

std::vector<CpuSet> CpusToStayOff(const Node& node, const NodeState& state, const Pod& pod) {
  const NumaUse use = UseByOthers(node, state, pod.uid);
  return {node.machine.CpusInNuma(use.several), node.machine.CpusInNuma(use.single)};
}

std::optional<Objection> ObjectionToNuma(const Node& node, const NodeState& before, const Pod& pod,
                                         const Admission& admission) {
  if (!admission.admitted() || !IsKeptApart(node, pod)) return std::nullopt;
  if (HasAssignments(node, before, pod)) return std::nullopt;
  const NumaMask nodes = NodesOfPod(node, pod, admission);
  const NumaUse use = UseByOthers(node, before, pod.uid);
  const bool is_single = nodes.Count() == 1;
  const NumaMask met = nodes & (is_single ? use.several : use.single);
  if (met.empty()) return std::nullopt;
  std::string others;
  for (const std::string& uid : PodsIn(before)) {
    const NumaMask of_other = node.machine.NumaOf(before.cpu.HeldBy(uid));
    if (uid == pod.uid || (of_other & met).empty() || (of_other.Count() > 1) != is_single) continue;
    others += (others.empty() ? "" : ", ") + uid;
  }
  const std::string place = "NUMA node " + std::to_string(node.machine.NumaIds(met).front());
  return Objection{
      (AsksItself(node, pod) ? "the pod asks for " : "the pod has ") + AskedText(node, pod) +
          ", and it would be on " +
          (is_single ? place + " alone, where pods of several NUMA nodes have CPUs: "
                     : "several NUMA nodes, where pods of " + place + " alone have CPUs: ") +
          others,
      "wait until these pods have ended, or " +
          (AsksItself(node, pod)
               ? std::string("write Preferred in place of Required")
               : "remove singleNUMANodeExclusive from " + DefaultsText(pod) +
                     " in namespacePolicies, or run the pod in another namespace")};
}

std::vector<CpuSet> PlacesByStrategy(const Node& node, const NodeState& state) {
  std::vector<CpuSet> places;
  const NumaAllocateStrategy strategy = node.config.numa_allocate_strategy;
  const bool orders = strategy == NumaAllocateStrategy::kFullestNode ||
                      strategy == NumaAllocateStrategy::kEmptiestNode;
  if (!orders || !node.cpu) return places;
  const CpuSet free = state.cpu.default_set - node.cpu->reserved -
                      cpumanager::HeldBack(node.machine, *node.cpu, state.cpu);
  const auto order_of = [&](const CpuSet& place) {
    int in_sockets = 0;
    for (const CpuGroup& socket : node.machine.sockets()) {
      if (socket.cpus.Intersects(place)) in_sockets += free.CountCommon(socket.cpus);
    }
    const int sign = strategy == NumaAllocateStrategy::kFullestNode ? 1 : -1;
    return std::pair(sign * free.CountCommon(place), sign * in_sockets);
  };
  for (const CpuGroup& numa : node.machine.numa_groups()) places.push_back(numa.cpus);
  std::ranges::stable_sort(places, {}, order_of);
  return places;
}

void DescribeNuma(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  if (!FollowedPolicies(node, pod).keeps_numa_apart) return;
  const bool is_followed = IsKeptApart(node, pod);
  texts.push_back(AskedText(node, pod) +
                  (is_followed ? "" : " has no effect: the pod has no topology policy"));
}

}  // namespace alignd::admission
