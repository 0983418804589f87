// The CPU manager's static policy: hints, allocation, release and the checks at start. All
// functions are pure; the NUMA affinity is an argument, nobody is called back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::cpumanager {

// How the CPU manager works on this machine. Made once; a value.
struct StaticPolicy {
  PolicyOptions options;
  CpuSet reserved;  // reserved CPUs, never given out exclusively

  // The CPUs that default set and assignments add up to: all, or with strict-cpu-reservation all
  // but the reserved.
  CpuSet Managed(const Machine& machine) const;

  friend bool operator==(const StaticPolicy&, const StaticPolicy&) = default;
};

// Resolves options and reserved CPUs. `config.cpu_manager_policy` must be static.
// Errors: kInvalidArgument with the text with which the kubelet refuses to start.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, NewStaticPolicy; cpu_manager.go,
// NewManager; container_manager_linux.go (reservedSystemCPUs).
Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config);

// The state of a node on which nothing runs.
CpuState InitialState(const Machine& machine, const StaticPolicy& policy);

// The cpu hints of one container; empty if it is not entitled to exclusive CPUs.
// Source: policy_static.go, GetTopologyHints.
topologymanager::HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& policy,
                                                const CpuState& state, const Pod& pod,
                                                const Container& container);

// The cpu hints of the whole pod. Source: policy_static.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const StaticPolicy& policy,
                                          const CpuState& state, const Pod& pod);

// Gives the container its exclusive CPUs (nothing to do if it is not entitled to any or has them)
// and updates what is reusable. Returns why not, or nullopt; after a refusal `state` is to be
// thrown away. Source: policy_static.go, Allocate.
std::optional<Refusal> Allocate(const Machine& machine, const StaticPolicy& policy, const Pod& pod,
                                const Container& container,
                                const topologymanager::TopologyHint& affinity, CpuState& state);

// Gives back what the container holds, except CPUs that another container of its pod holds too.
// Source: policy_static.go, RemoveContainer.
void ReleaseContainer(const ContainerKey& key, CpuState& state);

// Gives back everything the pod holds.
void ReleasePod(const std::string& pod_uid, CpuState& state);

// Checks a state that was loaded from disk against the machine and the policy.
// Errors: kCorrupt with the kubelet's text, without its prefix.
// Source: policy_static.go, validateState.
Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const CpuState& state);

// Broken invariants of a state that we made ourselves, one sentence each; empty if it is sound:
// no assignment touches the default set, CPUs of different pods are disjoint, default set and
// assignments are exactly the managed CPUs, reserved CPUs are assigned to nobody.
std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const CpuState& state);

}  // namespace alignd::cpumanager
