#include "core/admission/own_status.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string_view>
#include <utility>
#include <vector>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/base/counted.h"
#include "core/cpumanager/core_use.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

using cpumanager::CoreUse;
using cpumanager::StaticPolicy;
using topologymanager::HintList;
using topologymanager::Hints;
using topologymanager::HintsByResource;
using topologymanager::TopologyHint;

constexpr std::string_view kRemoveStatus =
    "let the scheduler decide again: create the pod anew, or remove the annotation";

bool MayDecide(const Node& node, const Pod& pod) {
  return MayChoose(node, pod, PodPolicy::kResourceStatus);
}

std::string OfStatus() { return " of annotation " + std::string(kResourceStatusAnnotation); }

Objection Object(std::string fault) { return {std::move(fault), std::string(kRemoveStatus)}; }

// A list as a message names it: the annotation can have thousands of elements.
std::string ShownList(const std::string& list) {
  constexpr size_t kLongestList = 160;
  return list.size() <= kLongestList ? list
                                     : list.substr(0, list.rfind(',', kLongestList)) + ",...";
}

std::string Shown(const CpuSet& cpus) { return ShownList(cpus.ToString()); }

Objection ObjectToCpus(const Pod& pod, const std::string& why) {
  return Object("the scheduler decided cpuset " + Shown(pod.policies.cpuset) + OfStatus() +
                ", and " + why);
}

// The exclusive CPUs that the pod has together when all its containers run.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/plugin.go, PreFilter (PodRequests).
int64_t CpusTogether(const Pod& pod) {
  if (const int64_t whole = PodCpuBudget(pod); whole > 0) return whole;
  return PodExclusiveCpus(pod);
}

// What the pod can be assigned, if other pods keep what they have.
CpuSet FreeFor(const Node& node, const NodeState& state, const std::string& pod_uid) {
  return (state.cpu.default_set | (state.cpu.HeldBy(pod_uid) - state.cpu.offline)) -
         node.cpu->reserved;
}

// The pods that have some of the CPUs, by UID: the state has no names. Empty: none has.
std::string PodsWith(const NodeState& state, const CpuSet& cpus) {
  constexpr int kMaxNamed = 5;
  std::string text;
  int count = 0;
  for (const std::string& uid : PodsIn(state)) {
    if (!state.cpu.HeldBy(uid).Intersects(cpus)) continue;
    if (++count <= kMaxNamed) text += (count == 1 ? "" : ", ") + uid;
  }
  return count <= kMaxNamed ? text : text + " and " + std::to_string(count - kMaxNamed) + " more";
}

std::optional<Objection> ObjectionToCpuset(const Node& node, const NodeState& state,
                                           const Pod& pod) {
  const CpuSet& cpus = pod.policies.cpuset;
  if (cpus.empty()) return std::nullopt;
  if (const CpuSet unknown = cpus - node.machine.cpus(); !unknown.empty()) {
    return ObjectToCpus(pod, "this node has no CPUs " + Shown(unknown));
  }
  if (const CpuSet reserved = cpus & node.cpu->reserved; !reserved.empty()) {
    return ObjectToCpus(pod, "CPUs " + reserved.ToString() + " are reserved");
  }
  const int64_t needed = CpusTogether(pod);
  if (pod.is_complete ? needed != cpus.Count() : needed > cpus.Count()) {
    return ObjectToCpus(pod, "the pod requests " + Counted(needed, "exclusive CPU") + ", not " +
                                 std::to_string(cpus.Count()));
  }
  if (const CpuSet offline = cpus & state.cpu.offline; !offline.empty()) {
    return ObjectToCpus(pod, "CPUs " + offline.ToString() + " are offline");
  }
  if (const CpuSet others = state.cpu.HeldBy(pod.uid) - cpus; !others.empty()) {
    return ObjectToCpus(pod, "containers of the pod have CPUs " + others.ToString());
  }
  if (const CpuSet taken = cpus - FreeFor(node, state, pod.uid); !taken.empty()) {
    const std::string owners = PodsWith(state, taken);
    const std::string why = "CPUs " + Shown(taken) + " are not free";
    if (owners.empty()) return ObjectToCpus(pod, why);
    Objection objection = ObjectToCpus(pod, why + ": pods with them are " + owners);
    objection.remedy = "wait until these pods end, or " + objection.remedy;
    return objection;
  }
  return std::nullopt;
}

bool IsCpuAmount(std::string_view name) { return name == "cpu"; }

bool IsMemoryAmount(std::string_view name) {
  return name == "memory" || name.starts_with("hugepages-");
}

// The decided NUMA nodes with an amount of such a resource; all of them if none has one.
std::optional<NumaMask> NodesWith(const Node& node, const Pod& pod, bool (*is)(std::string_view)) {
  const std::optional<NumaMask> all = DecidedNodes(node, pod);
  std::vector<int64_t> ids;
  for (const auto& [id, amounts] : pod.policies.numa_resources) {
    const bool has = std::ranges::any_of(
        amounts, [is](const auto& amount) { return is(amount.first) && !amount.second.IsZero(); });
    if (has) ids.push_back(id);
  }
  return all && !ids.empty() ? node.machine.MaskOfIds(ids) : all;
}

CpuSet DecidedCpuNodes(const Node& node, const Pod& pod) {
  return node.machine.CpusInNuma(*NodesWith(node, pod, IsCpuAmount));
}

// The CPUs of each decided NUMA node that gives some, by its position, if all are whole numbers.
std::map<int, int64_t> WholeCounts(const Node& node, const Pod& pod) {
  std::map<int, int64_t> counts;
  for (const auto& [id, amounts] : pod.policies.numa_resources) {
    const auto cpu = amounts.find("cpu");
    if (cpu == amounts.end() || cpu->second.IsZero()) continue;
    const std::optional<int> position = node.machine.NumaPosition(id);
    const int64_t count = cpu->second.Value();
    if (!position || cpu->second != Quantity(count) || count > CpuSet::kMaxCpu) return {};
    counts[*position] = count;
  }
  return counts;
}

// The same if they make up what the pod requests, which is known of a complete pod.
std::map<int, int64_t> DecidedCounts(const Node& node, const Pod& pod) {
  if (!pod.is_complete) return {};
  std::map<int, int64_t> counts = WholeCounts(node, pod);
  int64_t sum = 0;
  for (const auto& [position, count] : counts) sum += count;
  return sum == CpusTogether(pod) ? counts : std::map<int, int64_t>();
}

Objection ObjectToNode(int64_t id, const std::string& what, const std::string& why) {
  return Object("the scheduler decided " + what + "NUMA node " + std::to_string(id) + OfStatus() +
                ", and " + why);
}

// Decided CPUs are whole cores where the node requires it, like all others.
StaticPolicy PolicyOfDecided(StaticPolicy policy) {
  if (policy.options.full_pcpus_only) policy.cores = CoreUse::kWhole;
  return policy;
}

// The CPUs of the pod, with those that it has, where each NUMA node gives the decided number.
struct CountedCpus {
  CpuSet cpus = {};
  std::optional<Objection> objection = {};
};

CountedCpus ChooseByCounts(const Node& node, const NodeState& state, const Pod& pod) {
  const StaticPolicy policy = PolicyOfDecided(CpuPolicyWith(node, ChosenPolicies(node, pod)));
  const Machine& machine = node.machine;
  const CpuSet held = state.cpu.HeldBy(pod.uid);
  CpuSet free = FreeFor(node, state, pod.uid) - held;
  if (policy.cores == CoreUse::kOneOfEach) {
    free -= cpumanager::GroupsTouching(machine.cores(), held);
  }
  CountedCpus counted;
  for (const auto& [position, count] : DecidedCounts(node, pod)) {
    const CpuSet& here = machine.CpusInNuma(position);
    const CpuSet own = held & here;
    const CpuSet assignable = cpumanager::CanBeAssigned(machine, policy, free & here);
    const int64_t missing = count - own.Count();
    counted.cpus |= own;
    std::string why;
    if (missing < 0) {
      why = "containers of the pod have CPUs " + own.ToString();
    } else if (assignable.Count() < missing) {
      why = "it has " + std::to_string(own.Count() + assignable.Count()) +
            " that the pod can be assigned";
    } else {
      const Result<CpuSet> more = cpumanager::Preview(machine, policy, assignable, missing);
      if (more.ok()) {
        counted.cpus |= *more;
        continue;
      }
      why = "they cannot be chosen: " + more.error().message;
    }
    counted.objection = ObjectToNode(machine.NumaId(position), Counted(count, "CPU") + " of ", why);
    return counted;
  }
  return counted;
}

// More than the pod requests is no contradiction: containers of the shared pool are counted, and
// Koordinator can amplify CPUs.
std::optional<Objection> ObjectionToFewCpus(const Pod& pod) {
  if (!pod.is_complete) return std::nullopt;
  Quantity sum;
  for (const auto& [id, amounts] : pod.policies.numa_resources) {
    if (const auto cpu = amounts.find("cpu"); cpu != amounts.end()) sum += cpu->second;
  }
  const int64_t needed = CpusTogether(pod);
  if (sum.IsZero() || sum >= Quantity(needed)) return std::nullopt;
  return Object("the scheduler decided " + sum.ToString() + " CPUs by numaNodeResources" +
                OfStatus() + ", and the pod requests " + Counted(needed, "exclusive CPU"));
}

std::optional<Objection> ObjectionToNodes(const Node& node, const NodeState& state,
                                          const Pod& pod) {
  if (pod.policies.numa_resources.empty()) return std::nullopt;
  for (const auto& [id, amounts] : pod.policies.numa_resources) {
    if (!node.machine.NumaPosition(id)) {
      return ObjectToNode(id, "", "this node has no such NUMA node");
    }
    for (const auto& [name, amount] : amounts) {
      if (IsCpuAmount(name) || IsMemoryAmount(name)) continue;
      return ObjectToNode(id, name + " of ", "only cpu, memory and huge pages can be decided");
    }
  }
  const CpuSet inside = DecidedCpuNodes(node, pod);
  if (const CpuSet outside = pod.policies.cpuset - inside; !outside.empty()) {
    return ObjectToCpus(pod, "CPUs " + outside.ToString() +
                                 " are on other NUMA nodes than those of its numaNodeResources");
  }
  if (!pod.policies.cpuset.empty()) return std::nullopt;
  if (auto objection = ObjectionToFewCpus(pod)) return objection;
  if (const CpuSet outside = state.cpu.HeldBy(pod.uid) - inside; !outside.empty()) {
    return Object("the scheduler decided on NUMA nodes by numaNodeResources" + OfStatus() +
                  ", and containers of the pod have CPUs " + outside.ToString() + " of others");
  }
  if (!pod.is_complete && WholeCounts(node, pod).size() > 1) {
    return Objection{
        "the scheduler decided how many CPUs each of several NUMA nodes gives, by "
        "numaNodeResources" +
            OfStatus() + ", and the containers of the pod become known one by one",
        "let alignd know the whole pod, by the kubelet's Pods API or annotation "
        "alignd.io/resources; or remove the annotation"};
  }
  return ChooseByCounts(node, state, pod).objection;
}

}  // namespace

bool HasAssignments(const Node& node, const NodeState& state, const Pod& pod) {
  if (PodCpuBudget(pod) > 0) return state.cpu.pods.contains(pod.uid);
  return std::ranges::all_of(pod.containers, [&](const Container& one) {
    const ContainerKey key{pod.uid, one.name};
    if (!RequestsAssignment(node, state, pod, one) || state.cpu.shares.contains(key)) return true;
    if (node.cpu && ExclusiveCpuCount(pod, one) > 0) return state.cpu.Find(key) != nullptr;
    return state.memory.Find(key) != nullptr || state.devices.allocations.contains(key);
  });
}

bool IsDecided(const Node& node, const Pod& pod) {
  const PodPolicies& asked = pod.policies;
  return MayDecide(node, pod) && (!asked.cpuset.empty() || !asked.numa_resources.empty());
}

std::optional<Objection> ObjectionToStatus(const Node& node, const NodeState& state,
                                           const Pod& pod) {
  if (!MayDecide(node, pod)) return std::nullopt;
  if (!pod.policies.status_fault.empty()) {
    return Objection{pod.policies.status_fault,
                     R"(correct the annotation, for example {"cpuset": "4-7"}, or remove it)"};
  }
  if (!IsDecided(node, pod) || HasAssignments(node, state, pod)) return std::nullopt;
  // Of a pod that is not complete, other containers can have exclusive CPUs.
  if (!node.cpu || (pod.is_complete && CpusTogether(pod) == 0)) {
    const std::string why =
        node.cpu ? "none of its containers gets exclusive CPUs" : "this node assigns no CPUs";
    return Object("a scheduler decided where the pod runs, by annotation " +
                  std::string(kResourceStatusAnnotation) + ", and " + why);
  }
  if (auto objection = ObjectionToCpuset(node, state, pod)) return objection;
  return ObjectionToNodes(node, state, pod);
}

Pod WithoutDecision(Pod pod) {
  pod.policies.cpuset = {};
  pod.policies.numa_resources.clear();
  return pod;
}

Pod WithOpenDecision(const Node& node, const NodeState& state, Pod pod) {
  const bool is_open = IsDecided(node, pod) && !HasAssignments(node, state, pod);
  return is_open ? pod : WithoutDecision(std::move(pod));
}

void RestrictToDecided(const Node& node, const NodeState& state, const Pod& pod,
                       StaticPolicy& policy) {
  if (!IsDecided(node, pod)) return;
  policy = PolicyOfDecided(std::move(policy));
  CpuSet decided = pod.policies.cpuset;
  if (decided.empty()) {
    decided = DecidedCounts(node, pod).empty() ? DecidedCpuNodes(node, pod)
                                               : ChooseByCounts(node, state, pod).cpus;
  }
  policy.avoided |= node.machine.cpus() - decided;
}

std::optional<NumaMask> DecidedNodes(const Node& node, const Pod& pod) {
  if (!MayDecide(node, pod) || pod.policies.numa_resources.empty()) return std::nullopt;
  std::vector<int64_t> ids;
  for (const auto& [id, amounts] : pod.policies.numa_resources) ids.push_back(id);
  return node.machine.MaskOfIds(ids);
}

std::optional<NumaMask> DecidedMemoryNodes(const Node& node, const Pod& pod) {
  return NodesWith(node, pod, IsMemoryAmount);
}

HintsByResource DecidedHints(const Node& node, const Pod& pod,
                             const std::vector<HintsByResource>& others) {
  const std::optional<NumaMask> decided = DecidedNodes(node, pod);
  const NumaMask nodes = decided.value_or(NumaMask()) & node.machine.numa_with_cpus();
  if (nodes.empty() || std::ranges::all_of(others, &HintsByResource::empty)) return {};
  return {{"numaNodeResources" + OfStatus(),
           Hints({TopologyHint{.affinity = nodes, .preferred = true}})}};
}

Hints HintsWithin(const Hints& hints, NumaMask nodes) {
  HintList listed;
  for (const TopologyHint& hint : hints.listed()) {
    if (hint.affinity && nodes.Contains(*hint.affinity)) listed.push_back(hint);
  }
  if (hints.described() == nullptr) return {std::move(listed), hints};
  topologymanager::DescribedHints described = *hints.described();
  described.sets.within = described.sets.within & nodes;
  for (topologymanager::Demand& demand : described.sets.demands) {
    for (topologymanager::Place& place : demand.places) place.nodes = place.nodes & nodes;
    std::erase_if(demand.places, [](const auto& place) { return place.nodes.empty(); });
  }
  return {std::move(listed), std::move(described)};
}

std::optional<Objection> ObjectionToResult(const Node& node, const Pod& pod,
                                           const Admission& admission) {
  const std::optional<NumaMask> decided = DecidedMemoryNodes(node, pod);
  if (!decided || !admission.admitted()) return std::nullopt;
  const std::vector<int> ids = node.machine.NumaIds(*decided);
  for (const auto& [name, assignment] : admission.assignments) {
    for (const int id : assignment.memory_nodes) {
      if (std::ranges::find(ids, id) != ids.end()) continue;
      return Object("the scheduler decided on other NUMA nodes by numaNodeResources" + OfStatus() +
                    ", and these have too little memory free for container " + name +
                    ": it would have memory of NUMA node " + std::to_string(id));
    }
  }
  return std::nullopt;
}

void DescribeStatus(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const PodPolicies& asked = pod.policies;
  if (asked.status_fault.empty() && asked.cpuset.empty() && asked.numa_resources.empty()) return;
  if (!MayDecide(node, pod)) {
    texts.push_back(IgnoredBy(node, pod, "annotation " + std::string(kResourceStatusAnnotation),
                              "resourceStatus"));
    return;
  }
  if (!asked.status_fault.empty()) texts.push_back(asked.status_fault);
  const std::string effect = HasNothingToAlign(node, pod) ? WhyNoExclusiveCpus(node, pod) : "";
  if (!asked.cpuset.empty()) {
    texts.push_back("cpuset " + Shown(asked.cpuset) + OfStatus() + effect);
  }
  if (asked.numa_resources.empty()) return;
  std::string nodes;
  for (const auto& [id, amounts] : asked.numa_resources) {
    nodes += (nodes.empty() ? "" : ",") + std::to_string(id);
  }
  texts.push_back("NUMA nodes " + ShownList(nodes) + OfStatus() + effect);
}

}  // namespace alignd::admission
