#include "alignd/admission/own_policy.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/assignment.h"
#include "alignd/admission/explanation.h"
#include "alignd/pod/unsupported_annotations.h"
#include "core/admission/held_resources.h"

namespace alignd::admission {
namespace {

std::string AnnotationText(NumaTopologyPolicy policy) {
  return "numaTopologyPolicy " + std::string(ToString(policy)) + " of annotation " +
         std::string(kNumaTopologyAnnotation);
}

bool MayChoose(const Node& node) {
  return node.config.pod_policies.contains(PodPolicy::kNumaTopologyPolicy);
}

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

Refusal Refuse(std::string fault, std::string remedy) {
  std::string message = fault + std::string(kWhatWouldHelp) + remedy;
  return {std::string(kPodPolicyError), std::move(message), std::move(fault), std::move(remedy)};
}

// What becomes of kNumaTopologyAnnotation. Empty: the pod does not have it.
std::string DescribeChoice(const Node& node, const Pod& pod) {
  const std::optional<NumaTopologyPolicy>& chosen = pod.policies.numa_topology;
  if (!chosen && pod.policies.fault.empty()) return {};
  if (!MayChoose(node)) {
    return "annotation " + std::string(kNumaTopologyAnnotation) +
           " is ignored: podPolicies does not have numaTopologyPolicy";
  }
  return chosen ? AnnotationText(*chosen) : pod.policies.fault;
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

std::optional<NumaTopologyPolicy> ChosenPolicy(const Node& node, const Pod& pod) {
  return MayChoose(node) ? pod.policies.numa_topology : std::nullopt;
}

std::optional<NumaTopologyPolicy> OwnPolicy(const Node& node, const Pod& pod) {
  return HasNone(node) ? ChosenPolicy(node, pod) : std::nullopt;
}

std::optional<NumaTopologyPolicy> OwnPolicy(const Node& node, const NodeState& state,
                                            const std::string& pod_uid) {
  if (!HasNone(node) || !MayChoose(node)) return std::nullopt;
  const auto chosen = state.chosen_policies.find(pod_uid);
  return chosen == state.chosen_policies.end() ? std::nullopt : std::optional(chosen->second);
}

const topologymanager::Policy& TopologyOf(const Node& node, const Pod& pod) {
  return TopologyOf(node, OwnPolicy(node, pod));
}

const topologymanager::Policy& TopologyOf(const Node& node, std::optional<NumaTopologyPolicy> own) {
  const bool is_own = own && !node.for_pods.empty();
  return is_own ? node.for_pods[static_cast<size_t>(*own)] : node.topology;
}

std::optional<Node> NodeWith(const Node& node, NumaTopologyPolicy policy) {
  KubeletConfig config = node.config;
  config.topology_manager_policy = ManagerPolicyOf(policy);
  Result<Node> made = Node::Make(node.machine, std::move(config));
  if (!made.ok()) return std::nullopt;
  made->allocates_devices_with_pod = node.allocates_devices_with_pod;
  return *std::move(made);
}

NodeState WithPolicies(const Node& node, NodeState state,
                       const std::map<std::string, NumaTopologyPolicy>& asked) {
  if (!MayChoose(node) || asked.empty()) return state;
  std::map<std::string, HoldingUnit> holders;
  for (const ContainerKey& key : HoldersIn(state)) {
    if (!asked.contains(key.pod_uid)) continue;
    holders[key.pod_uid].pod_uid = key.pod_uid;
    holders[key.pod_uid].containers.push_back(key.container);
  }
  std::map<NumaTopologyPolicy, std::optional<Node>> nodes;  // with the policies as their own
  for (const auto& [uid, containers] : holders) {
    const NumaTopologyPolicy policy = asked.at(uid);
    if (!nodes.contains(policy)) nodes[policy] = NodeWith(node, policy);
    const std::optional<Node>& as_own = nodes.at(policy);
    if (as_own && AdmitsAssignment(*as_own, state, containers)) {
      state.chosen_policies[uid] = policy;
    }
  }
  return state;
}

std::optional<Refusal> RefuseOwnPolicy(const Node& node, const NodeState& state, const Pod& pod) {
  if (!MayChoose(node) || pod.policies == PodPolicies()) return std::nullopt;
  if (!IsToBeAligned(node, state, pod)) return std::nullopt;
  if (!pod.policies.fault.empty()) {
    return Refuse(pod.policies.fault, R"(correct the annotation, for example )"
                                      R"({"numaTopologyPolicy": "SingleNUMANode"}, or remove it)");
  }
  const std::optional<NumaTopologyPolicy> chosen = pod.policies.numa_topology;
  if (!chosen || HasNone(node) || ManagerPolicyOf(*chosen) == node.topology.kind()) {
    return std::nullopt;
  }
  const std::string of_node(ToString(node.topology.kind()));
  const std::string of_pod(ToString(ManagerPolicyOf(*chosen)));
  return Refuse("the pod asks for " + AnnotationText(*chosen) +
                    ", and this node decides with topologyManagerPolicy " + of_node,
                "remove numaTopologyPolicy from the annotation: the node's policy then applies; or "
                "run the pod on a node with topologyManagerPolicy none or " +
                    of_pod);
}

std::string DescribePodPolicy(const Node& node, const Pod& pod) {
  std::string text = DescribeChoice(node, pod);
  const std::string unsupported = DescribeUnsupported(pod.policies.unsupported);
  if (!text.empty() && !unsupported.empty()) text += "; ";
  return text + unsupported;
}

}  // namespace alignd::admission
