#include "alignd/admission/assignment.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/admission/shared_pool.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/cpumanager/node_shares.h"
#include "core/admission/own_defaults.h"
#include "core/admission/shared_node.h"

namespace alignd::admission {
namespace {

bool IsMemory(std::string_view resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

// Those of the CPUs that are on the NUMA node. If none of these is online, or all are withheld, it
// has to run on the others.
CpuSet OfNumaNode(const Node& node, int numa_id, const CpuSet& cpus) {
  const CpuSet here = cpus & node.machine.CpusInNuma(node.machine.MaskOfIds({numa_id}));
  return here.empty() ? cpus : here;
}

}  // namespace

Assignment AssignmentOf(const Node& node, const NodeState& state, const ContainerKey& key) {
  Assignment assignment;
  const CpuSet* const assigned = state.cpu.Find(key);
  if (assigned != nullptr) assignment.offline = *assigned & state.cpu.offline;
  const bool runs_on_its_own = state.cpu.RunsOnItsOwn(key);
  if (runs_on_its_own) {
    assignment.cpuset = state.cpu.RunsOn(key);
  } else if (!state.cpu.withheld.contains(key)) {
    assignment.cpuset = SharedCpus(node, state);
    if (const auto share = state.cpu.shares.find(key); share != state.cpu.shares.end()) {
      assignment.share = share->second;
      assignment.cpuset = OfNumaNode(node, share->second.numa_id, assignment.cpuset);
    }
  }
  assignment.shares_pod_cpus = runs_on_its_own && IsolationOf(state, key) == Isolation::kPod;
  if (runs_on_its_own && !assignment.shares_pod_cpus) assignment.exclusive = assignment.cpuset;
  if (const auto* blocks = state.memory.Find(key)) {
    std::set<int> nodes;
    for (const memorymanager::Block& block : *blocks) {
      nodes.insert(block.numa_affinity.begin(), block.numa_affinity.end());
    }
    assignment.memory_nodes.assign(nodes.begin(), nodes.end());
  }
  if (const auto devices = state.devices.allocations.find(key);
      devices != state.devices.allocations.end()) {
    assignment.devices = devices->second;
  }
  return assignment;
}

bool RequestsCpus(const Node& node, const Pod& pod, const Container& container) {
  if (!node.cpu) return false;
  if (pod.pod_level_managers == PodLevelManagers::kPod) return WholePodCpus(pod) > 0;
  return ExclusiveCpus(pod, container) > 0;
}

bool RequestsMemory(const Node& node, const Pod& pod, const Container& container) {
  if (!AssignsMemory(node, pod)) return false;
  const bool from_pod = pod.pod_level_managers == PodLevelManagers::kPod;
  if (!from_pod && !IsEligible(pod, container)) return false;
  const ResourceList& requests = from_pod ? pod.pod_level->requests : container.resources.requests;
  const bool zero_counts = !from_pod && IsPinned(pod);
  return std::ranges::any_of(requests, [zero_counts](const auto& entry) {
    return IsMemory(entry.first) && (zero_counts || !entry.second.IsZero());
  });
}

bool AsksForOneNode(const Node& node, const Pod& pod, const Container& container) {
  const bool has_fault =
      !pod.policies.shared_fault.empty() && MayChoose(node, pod, PodPolicy::kSharedNumaNode);
  if (!has_fault && !FollowedPolicies(node, pod).shared_on_one_node) return false;
  return !RequestsCpus(node, pod, container);
}

bool MayShareNodes(const Node& node) {
  return node.cpu && PodPoliciesAnywhere(node.config).contains(PodPolicy::kSharedNumaNode);
}

bool AssignsMemory(const Node& node, const Pod& pod) {
  return node.memory && (IsPinned(pod) || StaysWithMemory(node, pod));
}

cpumanager::NodeShare ShareOf(const Container& container) {
  // More than any machine has: no sum overflows.
  constexpr int64_t kMaxMillis = int64_t{2} * (CpuSet::kMaxCpu + 1) * cpumanager::kMillisPerCpu;
  const Quantity* const cpu = Find(container.resources.requests, "cpu");
  const int64_t millis = cpu == nullptr ? 0 : std::clamp<int64_t>(cpu->MilliValue(), 0, kMaxMillis);
  return {.numa_id = 0, .millis = millis, .kind = container.kind};
}

bool RequestsAssignment(const Node& node, const NodeState& state, const Pod& pod,
                        const Container& container) {
  return RequestsCpus(node, pod, container) || RequestsMemory(node, pod, container) ||
         AsksForOneNode(node, pod, container) ||
         std::ranges::any_of(container.resources.limits, [&state](const auto& limit) {
           return !limit.second.IsZero() && state.devices.resources.contains(limit.first);
         });
}

}  // namespace alignd::admission
