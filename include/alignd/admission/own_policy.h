// The topology policy under which a pod is decided: the node's, or the pod's own (PodPolicies), if
// the node's configuration lets pods choose (KubeletConfig::pod_policies). The one place that
// decides which.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/policy.h"

namespace alignd::admission {

// The reason of RefuseOwnPolicy.
inline constexpr std::string_view kPodPolicyError = "PodPolicyError";

// BestEffort is best-effort, and so on.
TopologyManagerPolicy ManagerPolicyOf(NumaTopologyPolicy policy);

// The policy that the pod asks for, if the node lets pods choose it.
std::optional<NumaTopologyPolicy> ChosenPolicy(const Node& node, const Pod& pod);

// The policy of the pod that applies in place of the node's: only a node with topologyManagerPolicy
// none has nothing that a pod could weaken. nullopt: the node's policy applies.
std::optional<NumaTopologyPolicy> OwnPolicy(const Node& node, const Pod& pod);
// The same of a pod that was admitted (NodeState::chosen_policies).
std::optional<NumaTopologyPolicy> OwnPolicy(const Node& node, const NodeState& state,
                                            const std::string& pod_uid);

// The policy that applies to the pod.
const topologymanager::Policy& TopologyOf(const Node& node, const Pod& pod);
// The node's policy if `own` is nullopt, or if the node lets no pod choose.
const topologymanager::Policy& TopologyOf(const Node& node, std::optional<NumaTopologyPolicy> own);

// The node with that policy in place of its own. For what is rare: it makes a node.
// nullopt: the options of its policies do not allow it.
std::optional<Node> NodeWith(const Node& node, NumaTopologyPolicy policy);

// The state with the policies that running pods ask for, by UID, as they are known after a restart:
// those that their assignments satisfy. A pod whose assignment does not was admitted under another
// policy, such as that of the node while pods could not choose: it keeps what it has. The policies
// of pods that are assigned nothing are left out.
NodeState WithPolicies(const Node& node, NodeState state,
                       const std::map<std::string, NumaTopologyPolicy>& asked);

// Refuses a pod whose annotation cannot be followed: it is malformed, or it asks for another policy
// than that of the node, which is not none. A pod without anything to align (RequestsAssignment) is
// not refused: the daemon does not decide about it. `fault` and `remedy` are parts of the message.
// `pod` is as the node manages it (OnThisNode).
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/util.go, mergeTopologyPolicy.
// Differs: koordinator ignores members of the annotation that it does not know.
std::optional<Refusal> RefuseOwnPolicy(const Node& node, const NodeState& state, const Pod& pod);

// What becomes of the pod's annotations, for `explain`: "numaTopologyPolicy Restricted by
// annotation NAME". Empty: the pod has none of pod_policies.h.
std::string DescribePodPolicy(const Node& node, const Pod& pod);

}  // namespace alignd::admission
