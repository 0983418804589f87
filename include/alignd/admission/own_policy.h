// What a pod asks for by annotation (PodPolicies), where the node's configuration lets pods choose
// (PodPoliciesFor), and what it has by default in its namespace (DefaultPoliciesFor): the topology
// policy under which it is decided, how its CPUs lie on cores, and what a scheduler has decided for
// it. The one place that decides what applies.
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

// Of the policies of a running pod, those that are followed on the node: without those that would
// be refused there, because the node has policies of its own.
PodPolicies ApplicableTo(const Node& node, const PodPolicies& chosen);

// BestEffort is best-effort, and so on.
TopologyManagerPolicy ManagerPolicyOf(NumaTopologyPolicy policy);

// Whether the node lets the pod choose it: that depends on the pod's namespace.
bool MayChoose(const Node& node, const Pod& pod, PodPolicy policy);

// The policies of a pod, as they are kept while it runs (NodeState::chosen_policies): what it asks
// for where the node lets it choose, and the defaults of its namespace. What schedulers have
// decided for the pod is left out, and what is wrong with its annotations: it does not apply to a
// running pod.
PodPolicies ChosenPolicies(const Node& node, const Pod& pod);
// The same of what the annotations of a running pod say.
PodPolicies ChosenPolicies(const Node& node, const PodPolicies& asked);

// Of the policies that a running pod has, those that still apply to it: that the node lets it
// choose, or for which its namespace has any default, also another one.
PodPolicies KeptPolicies(const Node& node, const PodPolicies& chosen);

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
// policy, such as that of the node while pods could not choose: it keeps what it has. Policies that
// are only preferred are all kept. The policies of pods that are assigned nothing are left out.
NodeState WithPolicies(const Node& node, NodeState state,
                       const std::map<std::string, PodPolicies>& asked);

// For a resize to exclusive CPUs: with what the pod asks for. After a restart, the state does not
// have that of a pod that was assigned nothing.
NodeState WithPoliciesOf(const Node& node, NodeState state, const Pod& pod);

// Whether the state has all that the pod asks for, as far as the node lets pods choose.
bool HasPolicies(const Node& node, const NodeState& state, const std::string& pod_uid,
                 const PodPolicies& asked);

// The pod, whose containers keep the exclusive CPUs that they have: whatever its annotations, its
// label (CpuSharing) and its namespace now say, shared CPUs are only for containers without.
Pod KeepingItsCpus(const Node& node, const NodeState& state, Pod pod);

// Whether the pod asks for exclusive CPUs by its label (CpuSharing), where the node lets pods
// choose.
bool MustHaveExclusiveCpus(const Node& node, const Pod& pod);

// Whether it does, and this container gets none: the pod is refused. An init container that ends
// can be without, if the others have as many CPUs. `pod` is as the node manages it (OnThisNode).
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/plugin.go, PreFilter
// (ErrInvalidRequestedCPUs); pkg/webhook/pod/validating, validateResources.
// Differs: koordinator counts the CPUs of the whole pod, as its containers share them.
bool LacksExclusiveCpus(const Node& node, const NodeState& state, const Pod& pod,
                        const Container& container);

// Refuses a pod whose annotations cannot be followed: one is malformed, asks for another topology
// policy than that of the node, which is not none, or for CPUs that the node does not assign like
// that, or at all. A pod without anything to align (RequestsAssignment) is refused only for
// exclusive CPUs that it must have: the daemon decides about no other one. `fault` and `remedy` are
// parts of the message. `pod` is as the node manages it (OnThisNode). Source: koordinator
// pkg/scheduler/plugins/nodenumaresource/util.go, mergeTopologyPolicy; plugin.go, Filter
// (ErrCPUBindPolicyConflict). Differs: koordinator ignores members of the annotations and values
// that it does not know.
std::optional<Refusal> RefuseOwnPolicy(const Node& node, const NodeState& state, const Pod& pod);

// A refusal for the pod's annotations.
Refusal PolicyRefusal(std::string fault, std::string remedy);

// What becomes of the pod's annotations, for `explain`: "numaTopologyPolicy Restricted by
// annotation NAME". Empty: the pod has none of pod_policies.h.
std::string DescribePodPolicy(const Node& node, const Pod& pod);

}  // namespace alignd::admission
