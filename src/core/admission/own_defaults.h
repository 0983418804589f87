// What applies to a pod: the defaults of its namespace (NamespacePolicies), and what it asks for by
// annotation where the node lets it choose. The one place that decides. Private to the core.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/node.h"
#include "alignd/config/config_problem.h"
#include "alignd/pod/pod.h"

namespace alignd::admission {

// What the pod has where its annotations say nothing.
const PlacementPolicies& DefaultsOf(const Node& node, const Pod& pod);

// What applies to the pod. A member that its annotations give counts before the default, if the
// node lets the pod choose. Of prefers_shared_cpus, only the default: the annotation is about
// single containers (CpuSharing).
PlacementPolicies FollowedPolicies(const Node& node, const Pod& pod);

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

// Defaults that contradict the policies of the node, or have no effect beside them.
std::vector<ConfigProblem> FindDefaultProblems(const KubeletConfig& config);

}  // namespace alignd::admission
