#include "alignd/admission/own_policy.h"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/pod/unsupported_annotations.h"
#include "core/admission/held_resources.h"
#include "core/admission/own_cpus.h"
#include "core/admission/own_defaults.h"
#include "core/admission/own_isolation.h"
#include "core/admission/own_numa.h"
#include "core/admission/own_sharing.h"
#include "core/admission/own_status.h"
#include "core/admission/shared_node.h"

namespace alignd::admission {
namespace {

std::string AnnotationText(NumaTopologyPolicy policy) {
  return "numaTopologyPolicy " + std::string(ToString(policy)) + " of annotation " +
         std::string(kNumaTopologyAnnotation);
}

constexpr PodPolicy kTopologyPolicy = PodPolicy::kNumaTopologyPolicy;

bool HasNone(const Node& node) { return node.topology.kind() == TopologyManagerPolicy::kNone; }

bool IsToBeAligned(const Node& node, const NodeState& state, const Pod& pod) {
  return std::ranges::any_of(pod.containers, [&](const Container& container) {
    return RequestsAssignment(node, state, pod, container);
  });
}

// Whether the node's policy admits the containers of the pod with what they are assigned.
bool AdmitsAssignment(const Node& node, const NodeState& state, const HoldingUnit& pod) {
  std::vector<HoldingUnit> units;
  if (node.topology.scope() == TopologyManagerScope::kPod) {
    units.push_back(pod);
  } else {
    for (const std::string& name : pod.containers) units.push_back({pod.pod_uid, {name}});
  }
  return std::ranges::all_of(units, [&](const HoldingUnit& unit) {
    const Admission admission = Admit(node, state, HoldingPod(node, state, unit),
                                      [](const auto& /*query*/) { return std::nullopt; });
    return admission.admitted() && HaveSameAssignments(admission.next, state);
  });
}

// Of a running pod's policies, those that its assignments satisfy. `with_policy` gives the node
// with a topology policy as its own.
template <typename WithPolicy>
PodPolicies SatisfiedBy(const Node& node, const NodeState& state, const HoldingUnit& pod,
                        PodPolicies policies, const WithPolicy& with_policy) {
  if (policies.numa_topology) {
    const std::optional<Node>& as_own = with_policy(*policies.numa_topology);
    if (!as_own || !AdmitsAssignment(*as_own, state, pod)) policies.numa_topology.reset();
  }
  if (policies.required_bind && !LieAs(*policies.required_bind, node, state, pod.pod_uid)) {
    policies.required_bind.reset();
  }
  return policies;
}

// A policy of the pod that is weaker than that of its namespace.
std::optional<Objection> ObjectionToWeaker(NumaTopologyPolicy chosen,
                                           std::optional<NumaTopologyPolicy> by_default,
                                           const Pod& pod) {
  if (!by_default || chosen >= *by_default) return std::nullopt;
  return Objection{"the pod asks for " + AnnotationText(chosen) + ", which is weaker than " +
                       OfDefaults(pod, "numaTopologyPolicy", ToString(*by_default)),
                   "remove numaTopologyPolicy from the annotation, or write a policy that is not "
                   "weaker; or run the pod in another namespace"};
}

// Another topology policy than that of the node, a weaker one than that of the namespace, or a
// malformed annotation.
std::optional<Objection> ObjectionToTopology(const Node& node, const Pod& pod) {
  if (!MayChoose(node, pod, kTopologyPolicy)) return std::nullopt;
  if (!pod.policies.fault.empty()) {
    constexpr std::string_view kMember = "singleNUMANodeExclusive";
    const bool is_exclusive = pod.policies.fault.find(kMember) != std::string::npos;
    const char* const example = is_exclusive ? R"({"singleNUMANodeExclusive": "Required"})"
                                             : R"({"numaTopologyPolicy": "SingleNUMANode"})";
    return Objection{pod.policies.fault, std::string("correct the annotation, for example ") +
                                             example + ", or remove it"};
  }
  const std::optional<NumaTopologyPolicy> chosen = pod.policies.numa_topology;
  if (!chosen) return std::nullopt;
  if (HasNone(node)) return ObjectionToWeaker(*chosen, DefaultsOf(node, pod).numa_topology, pod);
  if (ManagerPolicyOf(*chosen) == node.topology.kind()) return std::nullopt;
  const std::string of_node(ToString(node.topology.kind()));
  const std::string of_pod(ToString(ManagerPolicyOf(*chosen)));
  return Objection{"the pod asks for " + AnnotationText(*chosen) +
                       ", and this node decides with topologyManagerPolicy " + of_node,
                   "remove numaTopologyPolicy from the annotation: the node's policy then applies; "
                   "or run the pod on a node with topologyManagerPolicy none or " +
                       of_pod};
}

void DescribeTopology(const Node& node, const Pod& pod, std::vector<std::string>& texts) {
  const std::optional<NumaTopologyPolicy>& chosen = pod.policies.numa_topology;
  const bool may_choose = MayChoose(node, pod, kTopologyPolicy);
  const bool asks = chosen || !pod.policies.fault.empty() || pod.policies.keeps_numa_apart;
  if (asks && !may_choose) {
    texts.push_back(IgnoredBy(node, pod, "annotation " + std::string(kNumaTopologyAnnotation),
                              ToString(kTopologyPolicy)));
  }
  if (may_choose && !pod.policies.fault.empty()) texts.push_back(pod.policies.fault);
  if (may_choose && chosen) {
    texts.push_back(AnnotationText(*chosen));
  } else if (const auto by_default = DefaultsOf(node, pod).numa_topology) {
    texts.push_back(OfDefaults(pod, "numaTopologyPolicy", ToString(*by_default)));
  }
  DescribeNuma(node, pod, texts);
}

}  // namespace

TopologyManagerPolicy ManagerPolicyOf(NumaTopologyPolicy policy) {
  switch (policy) {
    case NumaTopologyPolicy::kBestEffort:
      return TopologyManagerPolicy::kBestEffort;
    case NumaTopologyPolicy::kRestricted:
      return TopologyManagerPolicy::kRestricted;
    case NumaTopologyPolicy::kSingleNumaNode:
      break;
  }
  return TopologyManagerPolicy::kSingleNumaNode;
}

bool MayChoose(const Node& node, const Pod& pod, PodPolicy policy) {
  return PodPoliciesFor(node.config, pod.name_space).contains(policy);
}

std::string IgnoredBy(const Node& node, const Pod& pod, std::string what, std::string_view name) {
  return std::move(what) + " is ignored: " + NameOfPodPolicies(node.config, pod.name_space) +
         " does not have " + std::string(name);
}

PodPolicies ChosenPolicies(const Node& node, const Pod& pod) {
  const PlacementPolicies followed = FollowedPolicies(node, pod);
  PodPolicies chosen;
  chosen.numa_topology = followed.numa_topology;
  chosen.required_bind = followed.required_bind;
  chosen.preferred_bind = followed.preferred_bind;
  chosen.exclusive = followed.exclusive;
  if (!AreEmpty(chosen)) chosen.name_space = pod.name_space;
  return chosen;
}

PodPolicies ChosenPolicies(const Node& node, const PodPolicies& asked) {
  Pod pod;
  pod.name_space = asked.name_space;
  pod.policies = asked;
  return ChosenPolicies(node, pod);
}

PodPolicies KeptPolicies(const Node& node, const PodPolicies& chosen) {
  const std::set<PodPolicy>& allowed = PodPoliciesFor(node.config, chosen.name_space);
  const PlacementPolicies& defaults = DefaultPoliciesFor(node.config, chosen.name_space);
  const auto keeps = [&](PodPolicy policy, const auto& by_default) {
    return allowed.contains(policy) || by_default.has_value();
  };
  PodPolicies kept = chosen;
  if (!keeps(PodPolicy::kNumaTopologyPolicy, defaults.numa_topology)) kept.numa_topology.reset();
  if (!keeps(PodPolicy::kCpuBindPolicy, defaults.required_bind)) kept.required_bind.reset();
  if (!keeps(PodPolicy::kCpuBindPolicy, defaults.preferred_bind)) kept.preferred_bind.reset();
  if (!keeps(PodPolicy::kCpuExclusivePolicy, defaults.exclusive)) kept.exclusive.reset();
  if (AreEmpty(kept)) kept.name_space.clear();
  return kept;
}

PodPolicies ApplicableTo(const Node& node, const PodPolicies& chosen) {
  PodPolicies policies = KeptPolicies(node, chosen);
  if (!HasNone(node)) policies.numa_topology.reset();
  const std::optional<CpuBindPolicy> of_node = BindPolicyOf(node);
  const bool contradicts = of_node && policies.required_bind && *policies.required_bind != *of_node;
  if (contradicts || !node.cpu) policies.required_bind.reset();
  return policies;
}

std::optional<NumaTopologyPolicy> OwnPolicy(const Node& node, const Pod& pod) {
  return HasNone(node) ? FollowedPolicies(node, pod).numa_topology : std::nullopt;
}

std::optional<NumaTopologyPolicy> OwnPolicy(const Node& node, const NodeState& state,
                                            const std::string& pod_uid) {
  if (!HasNone(node)) return std::nullopt;
  const auto chosen = state.chosen_policies.find(pod_uid);
  return chosen == state.chosen_policies.end() ? std::nullopt
                                               : KeptPolicies(node, chosen->second).numa_topology;
}

const topologymanager::Policy& TopologyOf(const Node& node, const Pod& pod) {
  return TopologyOf(node, OwnPolicy(node, pod));
}

const topologymanager::Policy& TopologyOf(const Node& node, std::optional<NumaTopologyPolicy> own) {
  const bool is_own = own && !node.for_pods.empty();
  return is_own ? node.for_pods[static_cast<size_t>(*own)] : node.topology;
}

std::optional<Node> NodeWith(const Node& node, NumaTopologyPolicy policy) {
  Result<Node> made =
      Node::Make(node.machine, WithTopologyPolicy(node.config, ManagerPolicyOf(policy)));
  if (!made.ok()) return std::nullopt;
  made->allocates_devices_with_pod = node.allocates_devices_with_pod;
  return *std::move(made);
}

NodeState WithPolicies(const Node& node, NodeState state,
                       const std::map<std::string, PodPolicies>& asked) {
  if (PodPoliciesAnywhere(node.config).empty() || asked.empty()) return state;
  std::map<std::string, HoldingUnit> holders;
  for (const ContainerKey& key : HoldersIn(state)) {
    if (!asked.contains(key.pod_uid)) continue;
    holders[key.pod_uid].pod_uid = key.pod_uid;
    holders[key.pod_uid].containers.push_back(key.container);
  }
  std::map<NumaTopologyPolicy, std::optional<Node>> nodes;  // with the policies as their own
  const auto with_policy = [&](NumaTopologyPolicy policy) -> const std::optional<Node>& {
    if (!nodes.contains(policy)) nodes[policy] = NodeWith(node, policy);
    return nodes.at(policy);
  };
  for (const auto& [uid, containers] : holders) {
    const PodPolicies satisfied =
        SatisfiedBy(node, state, containers, ChosenPolicies(node, asked.at(uid)), with_policy);
    if (!AreEmpty(satisfied)) state.chosen_policies[uid] = satisfied;
  }
  return state;
}

NodeState WithPoliciesOf(const Node& node, NodeState state, const Pod& pod) {
  if (state.chosen_policies.contains(pod.uid)) return state;
  PodPolicies chosen = ChosenPolicies(node, pod);
  if (!AreEmpty(chosen)) state.chosen_policies[pod.uid] = std::move(chosen);
  return state;
}

bool HasPolicies(const Node& node, const NodeState& state, const std::string& pod_uid,
                 const PodPolicies& asked) {
  const auto known = state.chosen_policies.find(pod_uid);
  const PodPolicies now = known == state.chosen_policies.end() ? PodPolicies() : known->second;
  return now == ChosenPolicies(node, asked);
}

std::optional<Refusal> RefuseOwnPolicy(const Node& node, const NodeState& state, const Pod& pod) {
  const bool may_ask =
      !AreEmpty(pod.policies) && !PodPoliciesFor(node.config, pod.name_space).empty();
  if (!may_ask && !DefaultsOf(node, pod).shared_on_one_node) return std::nullopt;
  std::optional<Objection> objection;
  if (!IsToBeAligned(node, state, pod)) {
    objection = ObjectionToLabel(node, state, pod);
    if (!objection) return std::nullopt;
    return PolicyRefusal(std::move(objection->fault), std::move(objection->remedy));
  }
  const Pod with_kept = WithoutLaterDefaults(node, state, pod);
  objection = ObjectionToTopology(node, with_kept);
  if (!objection) objection = ObjectionToSharing(node, state, pod);
  if (!objection) objection = ObjectionToIsolation(node, pod);
  if (!objection) objection = ObjectionToSpec(node, with_kept);
  if (!objection) objection = ObjectionToStatus(node, state, pod);
  if (!objection) objection = ObjectionToSharedNode(node, pod);
  if (!objection) return std::nullopt;
  return PolicyRefusal(std::move(objection->fault), std::move(objection->remedy));
}

Refusal PolicyRefusal(std::string fault, std::string remedy) {
  std::string message = fault + std::string(kWhatWouldHelp) + remedy;
  return {std::string(kPodPolicyError), std::move(message), std::move(fault), std::move(remedy)};
}

std::string DescribePodPolicy(const Node& node, const Pod& pod) {
  std::vector<std::string> texts;
  DescribeTopology(node, pod, texts);
  DescribeSpec(node, pod, texts);
  DescribeStatus(node, pod, texts);
  DescribeSharing(node, pod, texts);
  DescribeIsolation(node, pod, texts);
  DescribeSharedNode(node, pod, texts);
  if (std::string unsupported = DescribeUnsupported(pod.policies.unsupported);
      !unsupported.empty()) {
    texts.push_back(std::move(unsupported));
  }
  std::string all;
  for (const std::string& text : texts) all += (all.empty() ? "" : "; ") + text;
  return all;
}

}  // namespace alignd::admission
