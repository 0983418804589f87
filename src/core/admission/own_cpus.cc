#include "core/admission/own_cpus.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "alignd/admission/assignment.h"
#include "alignd/admission/own_policy.h"
#include "alignd/admission/pod_level.h"
#include "alignd/pod/resource_name.h"
#include "alignd/topologymanager/policy.h"
#include "core/admission/own_defaults.h"
#include "core/cpumanager/core_use.h"
#include "core/pod/exclusive_cpu_count.h"

namespace alignd::admission {
namespace {

using cpumanager::CoreUse;
using cpumanager::GroupsTouching;
using cpumanager::StaticPolicy;

constexpr std::string_view kRequired = "requiredCPUBindPolicy";
constexpr std::string_view kPreferred = "preferredCPUBindPolicy";
constexpr std::string_view kExclusive = "preferredCPUExclusivePolicy";

std::string OfAnnotation(std::string_view field, std::string_view value) {
  return std::string(field) + " " + std::string(value) + " of annotation " +
         std::string(kResourceSpecAnnotation);
}

// Whether the node's options leave it to the pod.
bool MayBind(const Node& node, CpuBindPolicy policy) {
  const std::optional<CpuBindPolicy> of_node = BindPolicyOf(node);
  return !of_node || *of_node == policy;
}

bool MayChooseBind(const Node& node, const Pod& pod) {
  return MayChoose(node, pod, PodPolicy::kCpuBindPolicy);
}

bool MayChooseExclusive(const Node& node, const Pod& pod) {
  return MayChoose(node, pod, PodPolicy::kCpuExclusivePolicy);
}

// One CPU at most of each core.
bool IsSpread(const Machine& machine, const CpuSet& cpus) {
  return std::ranges::all_of(
      machine.cores(), [&](const CpuGroup& core) { return core.cpus.CountCommon(cpus) <= 1; });
}

}  // namespace

bool HasExclusiveCpus(const Node& node, const Pod& asking) {
  if (!node.cpu) return false;
  const Pod pod = OnThisNode(node, asking);
  if (PodCpuBudget(pod) > 0) return true;
  return std::ranges::any_of(pod.containers,
                             [&](const Container& one) { return ExclusiveCpuCount(pod, one) > 0; });
}

std::optional<CpuBindPolicy> BindPolicyOf(const cpumanager::PolicyOptions& options) {
  if (options.full_pcpus_only) return CpuBindPolicy::kFullPcpus;
  if (options.distribute_cpus_across_cores) return CpuBindPolicy::kSpreadByPcpus;
  return std::nullopt;
}

std::optional<CpuBindPolicy> BindPolicyOf(const Node& node) {
  return node.cpu ? BindPolicyOf(node.cpu->options) : std::nullopt;
}

std::string OptionOf(CpuBindPolicy policy) {
  return policy == CpuBindPolicy::kFullPcpus ? "full-pcpus-only" : "distribute-cpus-across-cores";
}

StaticPolicy CpuPolicyWith(const Node& node, const PodPolicies& chosen) {
  StaticPolicy policy = *node.cpu;
  if (chosen.required_bind && MayBind(node, *chosen.required_bind)) {
    const bool is_full = *chosen.required_bind == CpuBindPolicy::kFullPcpus;
    policy.cores = is_full ? CoreUse::kWhole : CoreUse::kOneOfEach;
  } else if (!chosen.required_bind && chosen.preferred_bind &&
             MayBind(node, *chosen.preferred_bind) && !policy.options.full_pcpus_only) {
    const bool is_full = *chosen.preferred_bind == CpuBindPolicy::kFullPcpus;
    policy.cores = is_full ? CoreUse::kWholeFirst : CoreUse::kOneOfEachFirst;
  }
  return policy;
}

StaticPolicy CpuPolicyOf(const Node& node, const NodeState& state, const std::string& pod_uid) {
  const auto asked = state.chosen_policies.find(pod_uid);
  if (asked == state.chosen_policies.end()) return *node.cpu;
  StaticPolicy policy = CpuPolicyWith(node, KeptPolicies(node, asked->second));
  policy.options = cpumanager::OptionsOf(policy);
  return policy;
}

StaticPolicy CpuPolicyOfResize(const Node& node, const NodeState& state, const ContainerKey& key) {
  StaticPolicy policy = CpuPolicyOf(node, state, key.pod_uid);
  if (policy.cores == CoreUse::kOneOfEach) {
    // The cores of its own CPUs are left out where the new ones are chosen.
    const CpuSet* const own = state.cpu.Find(key);
    policy.avoided = GroupsTouching(node.machine.cores(),
                                    state.cpu.HeldBy(key.pod_uid) - (own ? *own : CpuSet()));
  }
  const bool spreads = policy.cores == CoreUse::kOneOfEachFirst &&
                       !policy.options.distribute_cpus_across_numa &&
                       !policy.options.prefer_align_cpus_by_uncorecache;
  if (spreads) policy.options.distribute_cpus_across_cores = true;
  return policy;
}

CpuSet AvoidedCpus(const Node& node, const NodeState& state, const std::string& pod_uid,
                   const PodPolicies& chosen) {
  if (!chosen.exclusive) return {};
  CpuSet cpus;
  for (const auto& [uid, of_other] : state.chosen_policies) {
    if (uid != pod_uid && of_other.exclusive == chosen.exclusive) cpus |= state.cpu.HeldBy(uid);
  }
  return *chosen.exclusive == CpuExclusivePolicy::kPcpuLevel
             ? GroupsTouching(node.machine.cores(), cpus)
             : node.machine.CpusInNuma(node.machine.NumaOf(cpus));
}

std::vector<CpuSet> PlacesToTry(const Node& node, const NodeState& state, const Pod& pod,
                                const CpuSet& avoided) {
  std::vector<CpuSet> places;
  if (TopologyOf(node, pod).kind() == TopologyManagerPolicy::kNone) {
    for (const CpuGroup& numa : node.machine.numa_groups()) places.push_back(numa.cpus);
  }
  const CpuSet free = state.cpu.default_set - node.cpu->reserved - avoided;
  std::ranges::stable_sort(places, std::ranges::greater(),
                           [&](const CpuSet& place) { return free.CountCommon(place); });
  places.insert(places.begin(), node.machine.cpus());
  return places;
}

bool IsWorse(const Node& node, const Pod& pod, const cpumanager::StaticPolicy& policy,
             const Admission& apart, const Admission& anywhere) {
  if (!apart.admitted()) return true;
  if (!anywhere.admitted()) return false;
  const topologymanager::TopologyHint none{node.machine.all_numa(), false};
  for (size_t i = 0; i < apart.decisions.size(); ++i) {
    if (topologymanager::AlignsBetter(anywhere.decisions[i].affinity.value_or(none),
                                      apart.decisions[i].affinity.value_or(none))) {
      return true;
    }
  }
  const auto cores_of = [&](const CpuSet& cpus) {
    return std::ranges::count_if(node.machine.cores(),
                                 [&](const CpuGroup& core) { return core.cpus.Intersects(cpus); });
  };
  for (const Container& container : pod.containers) {
    const ContainerKey key{pod.uid, container.name};
    const CpuSet* const here = apart.next.cpu.Find(key);
    const CpuSet* const there = anywhere.next.cpu.Find(key);
    if (here == nullptr || there == nullptr) continue;
    const auto cores = cores_of(*here) - cores_of(*there);
    if (node.machine.NumaOf(*here).Count() > node.machine.NumaOf(*there).Count()) return true;
    if (policy.cores == cpumanager::CoreUse::kWholeFirst && cores > 0) return true;
    if (policy.cores == cpumanager::CoreUse::kOneOfEachFirst && cores < 0) return true;
  }
  return false;
}

bool LieAs(CpuBindPolicy policy, const Node& node, const NodeState& state,
           const std::string& pod_uid) {
  const auto whole = state.cpu.pods.find(pod_uid);
  const bool has_whole = whole != state.cpu.pods.end();
  if (policy == CpuBindPolicy::kSpreadByPcpus) {
    // Ended init containers can have been on the same cores.
    return IsSpread(node.machine,
                    has_whole ? whole->second : cpumanager::NotReusable(state.cpu, pod_uid));
  }
  const auto are_whole = [&](const CpuSet& cpus) {
    return GroupsTouching(node.machine.cores(), cpus) == cpus;
  };
  if (has_whole) return are_whole(whole->second);
  const auto containers = state.cpu.assignments.find(pod_uid);
  if (containers == state.cpu.assignments.end()) return true;
  return std::ranges::all_of(containers->second,
                             [&](const auto& container) { return are_whole(container.second); });
}

std::optional<Objection> ObjectionToSpec(const Node& node, const Pod& pod) {
  if (!MayChooseBind(node, pod) && !MayChooseExclusive(node, pod)) return std::nullopt;
  if (!pod.policies.spec_fault.empty()) {
    const bool is_exclusive = pod.policies.spec_fault.find(kExclusive) != std::string::npos;
    const char* const example = is_exclusive ? R"({"preferredCPUExclusivePolicy": "PCPULevel"})"
                                             : R"({"requiredCPUBindPolicy": "FullPCPUs"})";
    return Objection{pod.policies.spec_fault, std::string("correct the annotation, for example ") +
                                                  example + ", or remove it"};
  }
  const std::optional<CpuBindPolicy>& required = pod.policies.required_bind;
  if (!required || !MayChooseBind(node, pod)) return std::nullopt;
  const std::string asked = OfAnnotation(kRequired, ToString(*required));
  if (!node.cpu) {
    return Objection{"the pod asks for " + asked + ", and this node assigns no CPUs",
                     "run the pod on a node with cpuManagerPolicy static, or write "
                     "preferredCPUBindPolicy in place of requiredCPUBindPolicy"};
  }
  // Of a pod that is not complete, other containers can have them.
  if (pod.is_complete && !HasExclusiveCpus(node, pod)) {
    return Objection{
        "the pod asks for " + asked + ", and none of its containers gets exclusive CPUs",
        "let the pod be Guaranteed, with a whole number of CPUs, or remove "
        "requiredCPUBindPolicy from the annotation"};
  }
  const auto by_default = DefaultsOf(node, pod).required_bind;
  if (by_default && *by_default != *required) {
    return Objection{"the pod asks for " + asked + ", and has " +
                         OfDefaults(pod, kRequired, ToString(*by_default)),
                     "remove requiredCPUBindPolicy from the annotation, or run the pod in another "
                     "namespace"};
  }
  if (MayBind(node, *required)) return std::nullopt;
  const std::string option = OptionOf(*BindPolicyOf(node));
  return Objection{"the pod asks for " + asked + ", and this node assigns CPUs with " + option,
                   "remove requiredCPUBindPolicy from the annotation: the node's option then "
                   "applies; or run the pod on a node without " +
                       option};
}

bool HasNothingToAlign(const Node& node, const Pod& asking) {
  if (!asking.is_complete) return false;
  const Pod pod = OnThisNode(node, asking);
  return std::ranges::none_of(pod.containers, [&](const Container& container) {
    return RequestsCpus(node, pod, container) || RequestsMemory(node, pod, container) ||
           AsksForOneNode(node, pod, container) ||
           std::ranges::any_of(container.resources.limits, [](const auto& limit) {
             return !limit.second.IsZero() && MayBeDevice(limit.first);
           });
  });
}

std::string WhyNoExclusiveCpus(const Node& node, const Pod& pod) {
  return HasExclusiveCpus(node, pod) ? "" : " has no effect: the pod has no exclusive CPUs";
}

namespace {

// A policy that the pod asks for itself, or has by default.
std::string SourceText(const Pod& pod, bool is_own, std::string_view field,
                       std::string_view value) {
  return is_own ? OfAnnotation(field, value) : OfDefaults(pod, field, value);
}

void DescribeBind(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const PodPolicies& asked = pod.policies;
  const bool may_choose = MayChooseBind(node, pod);
  if (!may_choose && (asked.required_bind || asked.preferred_bind)) {
    const std::string text = asked.required_bind
                                 ? OfAnnotation(kRequired, ToString(*asked.required_bind))
                                 : OfAnnotation(kPreferred, ToString(*asked.preferred_bind));
    texts.push_back(IgnoredBy(node, pod, text, "cpuBindPolicy"));
  }
  const PlacementPolicies followed = FollowedPolicies(node, pod);
  if (followed.required_bind) {
    const bool is_own = may_choose && asked.required_bind;
    const std::string text = SourceText(pod, is_own, kRequired, ToString(*followed.required_bind));
    // What the pod asks for is refused without exclusive CPUs, if it has something to align.
    const bool is_refused = is_own && !HasNothingToAlign(node, pod);
    texts.push_back(is_refused ? text : text + WhyNoExclusiveCpus(node, pod));
    if (is_own || !may_choose || !asked.preferred_bind) return;
    texts.push_back(OfAnnotation(kPreferred, ToString(*asked.preferred_bind)) +
                    " has no effect: " + DefaultsText(pod) + " have requiredCPUBindPolicy");
    return;
  }
  if (!followed.preferred_bind) return;
  std::string text = SourceText(pod, may_choose && asked.preferred_bind, kPreferred,
                                ToString(*followed.preferred_bind)) +
                     WhyNoExclusiveCpus(node, pod);
  if (HasExclusiveCpus(node, pod) && !MayBind(node, *followed.preferred_bind)) {
    text += " has no effect: the node has " + OptionOf(*BindPolicyOf(node));
  }
  texts.push_back(std::move(text));
}

}  // namespace

void DescribeSpec(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const PodPolicies& asked = pod.policies;
  const std::string annotation = "annotation " + std::string(kResourceSpecAnnotation);
  if (!asked.spec_fault.empty()) {
    const bool is_read = MayChooseBind(node, pod) || MayChooseExclusive(node, pod);
    texts.push_back(is_read ? asked.spec_fault
                            : annotation +
                                  " is ignored: " + NameOfPodPolicies(node.config, pod.name_space) +
                                  " has neither cpuBindPolicy nor cpuExclusivePolicy");
  }
  DescribeBind(node, pod, texts);
  if (asked.exclusive && !MayChooseExclusive(node, pod)) {
    texts.push_back(IgnoredBy(node, pod, OfAnnotation(kExclusive, ToString(*asked.exclusive)),
                              "cpuExclusivePolicy"));
  }
  if (const auto followed = FollowedPolicies(node, pod).exclusive) {
    const bool is_own = asked.exclusive && MayChooseExclusive(node, pod);
    texts.push_back(SourceText(pod, is_own, kExclusive, ToString(*followed)) +
                    WhyNoExclusiveCpus(node, pod));
  }
}

}  // namespace alignd::admission
