#include "core/admission/shared_node.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/admission/resize.h"
#include "alignd/base/counted.h"
#include "alignd/cpumanager/node_shares.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/topologymanager/policy.h"
#include "core/admission/own_defaults.h"
#include "core/memorymanager/memory_request.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

using cpumanager::NodeShare;
using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

const NodeShare* FindShare(const NodeState& state, const ContainerKey& key) {
  const auto share = state.cpu.shares.find(key);
  return share == state.cpu.shares.end() ? nullptr : &share->second;
}

NodeShare ShareAt(const Container& container, int numa_id) {
  NodeShare share = ShareOf(container);
  share.numa_id = numa_id;
  return share;
}

bool Fits(const Node& node, const NodeState& state, const ContainerKey& key,
          const NodeShare& share) {
  return cpumanager::FitsOn(node.machine, *node.cpu, state.cpu, key, share);
}

// The exclusive CPUs that the pod is still to be assigned: of its containers without any.
int64_t ExclusiveToCome(const NodeState& state, const Pod& pod) {
  Pod rest = pod;
  rest.stated_qos = QosOf(pod);
  std::erase_if(rest.containers, [&](const Container& container) {
    return state.cpu.Find({pod.uid, container.name}) != nullptr;
  });
  return PodExclusiveCpus(rest);
}

HintsByResource HintsFor(HintList hints) {
  return {{std::string(kSharedCpus), Hints(std::move(hints))}};
}

TopologyHint At(const Machine& machine, int numa_id) {
  return {.affinity = machine.MaskOfIds({numa_id}), .preferred = true};
}

int64_t BackingCount(const Node& node, const NodeState& state, int numa_id) {
  return cpumanager::BackingOn(node.machine, *node.cpu, state.cpu, numa_id).Count();
}

// Whether the NUMA node has too few CPUs for what containers that stay there request, and fewer
// than before: CPUs that are offline can be missing before.
bool HasTooFew(const Node& before, const NodeState& given, const Node& after, const NodeState& next,
               int numa_id) {
  const int64_t left = BackingCount(after, next, numa_id);
  return left < cpumanager::BackedOn(next.cpu, numa_id) &&
         left < BackingCount(before, given, numa_id);
}

bool MayShareNode(const Node& node, const Pod& pod) {
  return MayChoose(node, pod, PodPolicy::kSharedNumaNode);
}

std::string Annotation() { return "annotation " + std::string(kSharedCpusAnnotation); }

std::string ByDefault(const Pod& pod) { return OfDefaults(pod, "shared-cpus", "single-numa-node"); }

bool IsMemory(const std::string& resource) {
  return resource == "memory" || resource.starts_with("hugepages-");
}

// The pod-level requests that are not accounted by NUMA node: "cpu", "memory"; empty: none.
std::string PodLevelRequest(const Node& node, const Pod& pod) {
  if (!pod.pod_level) return {};
  if (Find(pod.pod_level->requests, "cpu") != nullptr) return "cpu";
  for (const auto& [resource, amount] : pod.pod_level->requests) {
    if (node.memory && IsMemory(resource)) return resource;
  }
  return {};
}

// Whether all memory of the container is on the NUMA node.
bool IsMemoryOn(const memorymanager::MemoryState& state, const ContainerKey& key, int numa_id) {
  const std::vector<memorymanager::Block>* const blocks = state.Find(key);
  return blocks == nullptr || std::ranges::all_of(*blocks, [&](const memorymanager::Block& block) {
           return block.size == 0 || block.numa_affinity == std::vector<int>{numa_id};
         });
}

// Why the container is not assigned its memory on the NUMA node, as what that has: "too little free
// memory". Empty: it has it there, or would be assigned it there.
std::string LackOfMemory(const Node& node, const NodeState& state, const Pod& pod,
                         const Container& container, int numa_id) {
  if (!RequestsMemory(node, pod, container)) return {};
  memorymanager::MemoryState with = state.memory;
  const memorymanager::Placement placement = memorymanager::Allocate(
      node.machine, *node.memory, pod, container, At(node.machine, numa_id), with);
  if (!placement.refusal && IsMemoryOn(with, {pod.uid, container.name}, numa_id)) return {};
  const memorymanager::NumaMemory& here = state.memory.machine.at(numa_id);
  for (const auto& [type, amount] : container.resources.requests) {
    if (IsMemory(type) && !memorymanager::WholeBytes(amount)) {
      return "no place for a " + type + " request that is not a whole number of bytes";
    }
  }
  if (here.cells.size() > 1) return "its memory in a group with other NUMA nodes";
  for (const auto& [type, amount] : container.resources.requests) {
    if (!IsMemory(type) || amount.IsZero()) continue;
    const auto table = here.tables.find(type);
    if (table == here.tables.end()) return "no memory of type " + type;
    if (Quantity(static_cast<int64_t>(table->second.free)) < amount) {
      return "too little free memory of type " + type;
    }
  }
  return "too little free memory";
}

}  // namespace

bool StaysWithMemory(const Node& node, const Pod& pod) {
  if (!node.cpu || !node.memory || !FollowedPolicies(node, pod).shared_on_one_node) return false;
  return pod.shared_pool_handler.empty() && !HasPodLevelResources(pod);
}

HintsByResource SharedNodeHints(const Node& node, const NodeState& state, const Pod& pod,
                                const Container& container) {
  if (!node.cpu || !AsksForOneNode(node, pod, container)) return {};
  const ContainerKey key{pod.uid, container.name};
  if (const NodeShare* const share = FindShare(state, key)) {
    return HintsFor({At(node.machine, share->numa_id)});
  }
  HintList hints;
  for (const NumaNode& numa : node.machine.numa()) {
    if (Fits(node, state, key, ShareAt(container, numa.id))) {
      hints.push_back(At(node.machine, numa.id));
    }
  }
  return HintsFor(std::move(hints));
}

HintsByResource PodSharedNodeHints(const Node& node, const NodeState& state, const Pod& pod) {
  if (!node.cpu) return {};
  std::vector<const Container*> asking;
  std::set<int> held;  // NUMA nodes that containers of the pod have
  for (const Container& container : pod.containers) {
    if (!AsksForOneNode(node, pod, container)) continue;
    const NodeShare* const share = FindShare(state, {pod.uid, container.name});
    if (share != nullptr) held.insert(share->numa_id);
    asking.push_back(&container);
  }
  if (asking.empty()) return {};
  const int64_t exclusive = ExclusiveToCome(state, pod);
  HintList hints;
  for (const NumaNode& numa : node.machine.numa()) {
    if (!held.empty() && (held.size() > 1 || !held.contains(numa.id))) continue;
    NodeState with = state;
    bool has_new = false;
    ContainerKey last;
    for (const Container* const container : asking) {
      const ContainerKey key{pod.uid, container->name};
      if (FindShare(with, key) != nullptr) continue;
      with.cpu.shares[key] = ShareAt(*container, numa.id);
      last = key;
      has_new = true;
    }
    const bool fits = !has_new || cpumanager::FitsOn(node.machine, *node.cpu, with.cpu, last,
                                                     with.cpu.shares.at(last), exclusive);
    if (fits) hints.push_back(At(node.machine, numa.id));
  }
  return HintsFor(std::move(hints));
}

std::optional<Refusal> AllocateSharedNode(const Node& node, const Pod& pod,
                                          const Container& container, const TopologyHint& affinity,
                                          bool must_align, NodeState& state) {
  if (!node.cpu || !AsksForOneNode(node, pod, container)) return std::nullopt;
  const ContainerKey key{pod.uid, container.name};
  if (FindShare(state, key) != nullptr) return std::nullopt;
  std::set<int> of_pod;
  for (const auto& [other, share] : state.cpu.shares) {
    if (other.pod_uid == pod.uid) of_pod.insert(share.numa_id);
  }
  // The greatest is chosen.
  using Rank = std::tuple<bool, bool, int64_t>;  // aligned, with its pod, what is left
  std::optional<std::pair<Rank, NodeShare>> best;
  bool lacks_memory = false;
  for (const NumaNode& numa : node.machine.numa()) {
    const NodeShare share = ShareAt(container, numa.id);
    const bool is_aligned =
        !affinity.affinity || affinity.affinity->Contains(node.machine.MaskOfIds({numa.id}));
    if ((must_align && !is_aligned) || !Fits(node, state, key, share)) continue;
    if (!LackOfMemory(node, state, pod, container, numa.id).empty()) {
      lacks_memory = true;
      continue;
    }
    const int64_t backing =
        cpumanager::BackingOn(node.machine, *node.cpu, state.cpu, numa.id).Count();
    const Rank rank{is_aligned, of_pod.contains(numa.id),
                    backing * cpumanager::kMillisPerCpu - cpumanager::SharesOn(state.cpu, numa.id)};
    if (!best || rank > best->first) best = {rank, share};
  }
  if (!best) {
    if (must_align) return topologymanager::TopologyAffinityError();
    return UnexpectedAdmissionError(std::string("no NUMA node has enough shared CPUs") +
                                    (lacks_memory ? " and enough memory that is in no group" : "") +
                                    " for container " + container.name +
                                    ", which is to stay on one");
  }
  state.cpu.shares[key] = best->second;
  return std::nullopt;
}

std::optional<TopologyHint> SharedNodeOf(const Node& node, const NodeState& state, const Pod& pod,
                                         const Container& container) {
  if (!node.cpu || !RequestsMemory(node, pod, container) || !AsksForOneNode(node, pod, container)) {
    return std::nullopt;
  }
  const NodeShare* const share = FindShare(state, {pod.uid, container.name});
  if (share == nullptr) return std::nullopt;
  return At(node.machine, share->numa_id);
}

std::optional<Refusal> RefuseMemoryElsewhere(const Node& node, const NodeState& state,
                                             const Pod& pod, const Container& container,
                                             const TopologyHint& own) {
  const int numa_id = node.machine.NumaIds(*own.affinity).front();
  if (IsMemoryOn(state.memory, {pod.uid, container.name}, numa_id)) return std::nullopt;
  return UnexpectedAdmissionError("[memorymanager] NUMA node " + std::to_string(numa_id) +
                                  ", on which container " + container.name +
                                  " stays, does not have all of its memory");
}

RenewedShare RenewShare(const Node& node, const NodeState& state, const Pod& pod,
                        const Container& container, bool keeps_memory) {
  const ContainerKey key{pod.uid, container.name};
  const NodeShare had = state.cpu.shares.at(key);
  const int numa_id = had.numa_id;
  const NodeShare share = ShareAt(container, numa_id);
  NodeState next = state;
  // While CPUs are offline, less than it has may be more than the rest backs.
  const bool is_more = share.millis > had.millis || share.kind != had.kind;
  if (is_more && !Fits(node, next, key, share)) {
    next.cpu.shares.erase(key);
    const int64_t left = BackingCount(node, next, numa_id) * cpumanager::kMillisPerCpu -
                         cpumanager::SharesOn(next.cpu, numa_id);
    return {std::to_string(std::max<int64_t>(left, 0)) + "m of shared CPUs", state};
  }
  next.cpu.shares[key] = share;
  const bool has_memory = node.memory && next.memory.Find(key) != nullptr;
  if (keeps_memory || container.kind == ContainerKind::kInit ||
      (!has_memory && !RequestsMemory(node, pod, container))) {
    return {"", std::move(next)};
  }
  if (!IsMemoryOn(next.memory, key, numa_id)) return {"not all of its memory", state};
  memorymanager::ReleaseContainer(key, next.memory);
  std::string lacks = LackOfMemory(node, next, pod, container, numa_id);
  if (!lacks.empty()) return {std::move(lacks), state};
  if (RequestsMemory(node, pod, container)) {
    memorymanager::Allocate(node.machine, *node.memory, pod, container, At(node.machine, numa_id),
                            next.memory);
  }
  return {"", std::move(next)};
}

std::optional<Objection> ObjectionToSharedNode(const Node& node, const Pod& pod) {
  if (MayShareNode(node, pod) && !pod.policies.shared_fault.empty()) {
    return Objection{pod.policies.shared_fault,
                     "correct the annotation: write single-numa-node; or remove it"};
  }
  if (!FollowedPolicies(node, pod).shared_on_one_node) return std::nullopt;
  // Without its annotation, it would still have the default.
  const bool is_own = MayShareNode(node, pod) && pod.policies.shared_on_one_node &&
                      !DefaultsOf(node, pod).shared_on_one_node;
  const std::string remove =
      is_own ? "remove " + Annotation() : std::string("run the pod in another namespace");
  const std::string asks =
      "the pod asks for one NUMA node by " + (is_own ? Annotation() : ByDefault(pod));
  if (!node.cpu) {
    return Objection{asks + ", and this node assigns no CPUs",
                     "run the pod on a node with cpuManagerPolicy static, or " + remove};
  }
  if (!pod.shared_pool_handler.empty()) {
    return Objection{asks +
                         ", and its processes do not run in the cgroups of its containers: its "
                         "runtime handler is " +
                         pod.shared_pool_handler,
                     remove + ", or run the pod with another RuntimeClass"};
  }
  const bool is_shared = std::ranges::any_of(
      pod.containers, [&](const Container& one) { return AsksForOneNode(node, pod, one); });
  const std::string pod_level = PodLevelRequest(node, pod);
  if (is_shared && !pod_level.empty()) {
    return Objection{asks + ", and it has a pod-level " + pod_level +
                         " request, which is not accounted by NUMA node",
                     remove + ", or write the requests at the containers alone"};
  }
  if (is_shared && node.memory && pod.lacks_memory_requests) {
    return Objection{asks +
                         ", where this node assigns its memory (memoryManagerPolicy Static), and "
                         "CRI does not show what a Burstable pod requests",
                     "let alignd read the pod from the Pods API or from annotation "
                     "alignd.io/resources, or " +
                         remove};
  }
  return std::nullopt;
}

void DescribeSharedNode(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const PodPolicies& asked = pod.policies;
  const bool may_choose = MayShareNode(node, pod);
  if (!may_choose && (asked.shared_on_one_node || !asked.shared_fault.empty())) {
    texts.push_back(IgnoredBy(node, pod, Annotation(), ToString(PodPolicy::kSharedNumaNode)));
  }
  if (may_choose && !asked.shared_fault.empty()) {
    texts.push_back(asked.shared_fault);
    return;
  }
  if (!FollowedPolicies(node, pod).shared_on_one_node) return;
  const Pod here = OnThisNode(node, pod);
  const bool is_shared = std::ranges::any_of(
      here.containers, [&](const Container& one) { return AsksForOneNode(node, here, one); });
  const bool is_own = may_choose && asked.shared_on_one_node;
  texts.push_back((is_own ? "single-numa-node of " + Annotation() : ByDefault(pod)) +
                  (is_shared ? "" : " has no effect: no container is of the shared pool"));
}

void EndSharesWithPolicy(const Node& after, NodeState& next, std::vector<std::string>& notes) {
  if (MayShareNodes(after) || next.cpu.shares.empty()) return;
  const bool is_one = next.cpu.shares.size() == 1;
  notes.emplace_back("podPolicies without sharedNUMANode, and no default shared-cpus: " +
                     Counted(next.cpu.shares.size(), "container") + " of the shared pool, " +
                     (is_one ? "which stays on one NUMA node, gets"
                             : "each of which stays on one NUMA node, get") +
                     " the CPUs of the whole pool; `alignctl pods` names " +
                     (is_one ? "it" : "them"));
  next.cpu.shares = {};
}

void AddFaultsOfShares(const Node& before, const NodeState& given, const Node& after,
                       const NodeState& next, std::vector<std::string>& faults) {
  if (!before.cpu || !after.cpu || next.cpu.shares.empty()) return;
  for (const NumaNode& numa : after.machine.numa()) {
    if (!HasTooFew(before, given, after, next, numa.id)) continue;
    faults.push_back(
        "containers of the shared pool that stay on NUMA node " + std::to_string(numa.id) +
        " request " + std::to_string(cpumanager::SharesOn(next.cpu, numa.id)) +
        "m CPU, and the change leaves " + Counted(BackingCount(after, next, numa.id), "CPU") +
        " there for them: delete their pods, or reserve fewer CPUs of this NUMA "
        "node");
  }
}

Node HoldingBackBeside(const Node& node, const NodeState& state, const CpuSet& own) {
  Node beside = node;
  if (!node.cpu) return beside;
  cpumanager::CpuState kept = state.cpu;
  kept.default_set -= own;
  beside.cpu->avoided |= cpumanager::HeldBack(node.machine, *node.cpu, kept);
  return beside;
}

std::optional<int> FindTooFewBacking(const Node& node, const NodeState& given,
                                     const NodeState& next) {
  if (!node.cpu || next.cpu.shares.empty()) return std::nullopt;
  for (const NumaNode& numa : node.machine.numa()) {
    if (HasTooFew(node, given, node, next, numa.id)) return numa.id;
  }
  return std::nullopt;
}

}  // namespace alignd::admission
