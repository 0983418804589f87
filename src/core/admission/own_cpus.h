// The CPUs that a pod asks for beside their number, by its annotations resource-spec and
// resource-status (PodPolicies), where the node's configuration lets pods choose. Private to the
// core.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "alignd/admission/admission.h"
#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"

namespace alignd::admission {

// The bind policy of the node, which no pod weakens: full-pcpus-only is FullPCPUs, and
// distribute-cpus-across-cores SpreadByPCPUs. nullopt: it has none.
// Source: koordinator apis/extension/numa_aware.go, GetNodeCPUBindPolicy; there, a label of the
// node stands for SpreadByPCPUs.
std::optional<CpuBindPolicy> BindPolicyOf(const Node& node);
std::optional<CpuBindPolicy> BindPolicyOf(const cpumanager::PolicyOptions& options);
// The name of the option that gives the node that policy.
std::string OptionOf(CpuBindPolicy policy);

// How the CPU manager decides about a pod with these policies (ChosenPolicies): the node's own
// policy, with what the pod asks for in addition. The node must have one.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/plugin.go, PreFilter; util.go,
// getCPUBindPolicy. Differs: without any bind policy, the node's options alone count, not those of
// a scheduler's configuration.
cpumanager::StaticPolicy CpuPolicyWith(const Node& node, const PodPolicies& chosen);

// The same of a pod that was admitted (NodeState::chosen_policies), to change what it has: the
// options have full-pcpus-only if the pod requires whole cores.
cpumanager::StaticPolicy CpuPolicyOf(const Node& node, const NodeState& state,
                                     const std::string& pod_uid);
// The same for a resize of one of its containers.
cpumanager::StaticPolicy CpuPolicyOfResize(const Node& node, const NodeState& state,
                                           const ContainerKey& key);

// The CPUs that the pod's exclusive policy stays away from: the cores, or the NUMA nodes, on which
// other pods with the same policy have CPUs.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/cpu_accumulator.go, newCPUAccumulator.
CpuSet AvoidedCpus(const Node& node, const NodeState& state, const std::string& pod_uid,
                   const PodPolicies& chosen);

// Where such a pod is tried: on the whole node, and, without a topology policy, which would find
// the NUMA node, on each NUMA node; first the one on which most is free.
std::vector<CpuSet> PlacesToTry(const Node& node, const NodeState& state, const Pod& pod,
                                const CpuSet& avoided);

// Whether a pod that stays away from others is worse for it: less aligned, on more NUMA nodes, or
// further from the cores that it prefers.
bool IsWorse(const Node& node, const Pod& pod, const cpumanager::StaticPolicy& policy,
             const Admission& apart, const Admission& anywhere);

// Whether all CPUs of the pod lie on cores as the policy requires: with kFullPcpus those of each
// container, with kSpreadByPcpus those of all containers together.
bool LieAs(CpuBindPolicy policy, const Node& node, const NodeState& state,
           const std::string& pod_uid);

// Why the pod cannot have what it requires here, now or ever: parts of the message. nullopt: no
// reason. `pod` has something to align.
struct Objection {
  std::string fault;
  std::string remedy;
};
std::optional<Objection> ObjectionToSpec(const Node& node, const Pod& pod);

// Whether a container of the pod gets exclusive CPUs, or the pod as a whole.
bool HasExclusiveCpus(const Node& node, const Pod& asking);

// Whether the node decides nothing about the pod: it is admitted whatever its annotations say.
// Devices that the node does not have count as devices. Of a pod that is not complete, other
// containers can have something to align: false.
bool HasNothingToAlign(const Node& node, const Pod& asking);

// " has no effect: the pod has no exclusive CPUs"; empty: it has some.
std::string WhyNoExclusiveCpus(const Node& node, const Pod& pod);

// Whether each container that is assigned something has it: its exclusive CPUs, or what else.
bool HasAssignments(const Node& node, const NodeState& state, const Pod& pod);

// "WHAT is ignored: podPolicies does not have NAME"
std::string IgnoredBy(const Node& node, const Pod& pod, std::string what, std::string_view name);

// What becomes of the annotation, one text for each policy that it asks for.
void DescribeSpec(const Node& node, const Pod& pod, std::vector<std::string>& texts);

}  // namespace alignd::admission
