// What applies to a pod: the defaults of its namespace (NamespacePolicies), and what it asks for by
// annotation where the node lets it choose. The one place that decides. Private to the core.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/config/config_problem.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// What the pod has where its annotations say nothing.
const PlacementPolicies& DefaultsOf(const Node& node, const Pod& pod);

// What applies to the pod. A member that its annotations give counts before the default, if the
// node lets the pod choose. Of prefers_shared_cpus, only the default: the annotation is about
// single containers (CpuSharing).
PlacementPolicies FollowedPolicies(const Node& node, const Pod& pod);

// What is kept of the policies of the pod (NodeState::chosen_policies) when it has been admitted:
// those that apply now. A default of its namespace can have changed since the pod was admitted
// first: if the former policy was stricter, it stays. A required bind policy that its CPUs do not
// satisfy is left out: it had them before it asked.
PodPolicies PoliciesAfter(const Node& node, const NodeState& before, const NodeState& after,
                          const Pod& pod);

// The pod, as objections to it are to be found. If it has been admitted with policies that its
// namespace now forbids, and it has something assigned, these defaults are left out: its other
// containers are decided as those that run.
Pod WithoutLaterDefaults(const Node& node, const NodeState& state, const Pod& pod);

// The pod, whose defaults are those of its namespace with a change.
template <typename Change>
Pod WithDefaults(const Node& node, Pod pod, const Change& change) {
  pod.defaults = DefaultsOf(node, pod);
  change(*pod.defaults);
  return pod;
}

// "NAME VALUE of the defaults of namespace NS".
std::string OfDefaults(const Pod& pod, std::string_view name, std::string_view value);
// "the defaults of namespace NS", for remedies.
std::string DefaultsText(const Pod& pod);

// The configuration for a node on which that topology policy is the policy of all pods.
KubeletConfig WithTopologyPolicy(KubeletConfig config, TopologyManagerPolicy policy);

// For remedies with another topologyManagerPolicy: the default that is beside it, of any namespace.
// " and no numaTopologyPolicy among the defaults in namespacePolicies"; empty: there is none.
std::string WithoutDefaultTopology(const KubeletConfig& config);

// Defaults that contradict the policies of the node, or have no effect beside them. `options`:
// those of the configuration, as far as they can be read.
std::vector<ConfigProblem> FindDefaultProblems(const KubeletConfig& config,
                                               const cpumanager::PolicyOptions& options);

}  // namespace alignd::admission
