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

// The CPUs of reservedSystemCPUs; empty if none are listed.
// Errors: kInvalidArgument with the kubelet's text if a listed CPU is not online.
// Source: kubelet cmd/kubelet/app/server.go, getReservedCPUs.
Result<CpuSet> ReservedSystemCpus(const Machine& machine, const KubeletConfig& config);

// Resolves options and reserved CPUs: those that reservedSystemCPUs lists, else as many as
// kubeReserved and systemReserved ask for, rounded up, chosen like a container's CPUs.
// `config.cpu_manager_policy` must be static. Errors: kInvalidArgument with the text with which the
// kubelet refuses to start. Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go,
// NewStaticPolicy; cpu_manager.go, NewManager; container_manager_linux.go (reservedSystemCPUs).
Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config);

// The state of a node on which nothing runs.
CpuState InitialState(const Machine& machine, const StaticPolicy& policy);

// The cpu hints of one container; empty if it is not entitled to exclusive CPUs.
// Only NUMA nodes with CPUs occur. Source: policy_static.go, GetTopologyHints.
// Differs: the hints are described, not listed; they are the same (see Hints).
topologymanager::HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& policy,
                                                const CpuState& state, const Pod& pod,
                                                const Container& container);

// The cpu hints of the whole pod. Source: policy_static.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const StaticPolicy& policy,
                                          const CpuState& state, const Pod& pod);

// Gives the container its exclusive CPUs (nothing to do if it is not entitled to any or has them)
// and updates what is reusable. Returns why not, or nullopt; after a refusal `state` is to be
// thrown away. Refusals: SMTAlignmentError, UnexpectedAdmissionError.
// Source: policy_static.go, Allocate.
// Differs: a container that has its CPUs keeps them before anything is checked. The kubelet asks
// first whether the rest of the node has enough whole cores (full-pcpus-only), and so refuses a
// running pod when it restarts.
std::optional<Refusal> Allocate(const Machine& machine, const StaticPolicy& policy, const Pod& pod,
                                const Container& container,
                                const topologymanager::TopologyHint& affinity, CpuState& state);

// Gives back what the container holds, except CPUs that another container holds too.
// Source: policy_static.go, RemoveContainer.
// Differs: what was given back is no longer reusable by the pod; it is free for all.
void ReleaseContainer(const ContainerKey& key, CpuState& state);

// Gives back everything the pod holds.
void ReleasePod(const std::string& pod_uid, CpuState& state);

// Checks a state that was loaded from disk against the machine and the policy.
// A state without default set and assignments passes: nothing was saved yet, and InitialState is to
// take its place.
// Errors: kCorrupt with the kubelet's text, without its prefix.
// Source: policy_static.go, validateState.
// Differs: with strict-cpu-reservation the default set may be empty if the assignments cover all
// CPUs but the reserved; the kubelet cannot restart on a node that is in full use. CPUs that two
// pods hold, and a container without CPUs, are refused; the kubelet does not look.
Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const CpuState& state);

// Broken invariants of a state that we made ourselves, one sentence each; empty if it is sound:
// no assignment touches the default set, CPUs of different pods are disjoint, default set and
// assignments are exactly the managed CPUs, reserved CPUs are assigned to nobody, and what a pod
// may reuse is its own.
std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const CpuState& state);

}  // namespace alignd::cpumanager
