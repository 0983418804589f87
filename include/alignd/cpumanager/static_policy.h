// The CPU manager's static policy: hints, allocation, release and the checks at start. All
// functions are pure; the NUMA affinity is an argument.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
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

// How the CPUs of a container lie on cores, where a pod asks for that.
enum class CoreUse {
  kByOptions,       // as the options say
  kWholeFirst,      // packed into whole cores as far as possible
  kOneOfEachFirst,  // on as many cores as possible
  kWhole,           // only whole cores, also where `options` do not have full_pcpus_only
  kOneOfEach,       // only one CPU of each core
};

// The settings of the CPU manager on this machine. Made once; a value.
struct StaticPolicy {
  PolicyOptions options;
  CpuSet reserved;  // never assigned exclusively
  // Of the pod that is decided (admission/own_cpus.h); a node has no such settings itself.
  CoreUse cores = CoreUse::kByOptions;
  CpuSet avoided = {};  // not assigned to the pod
  // By container: not assigned to this one either.
  std::map<std::string, CpuSet, std::less<>> avoided_by = {};

  // The union of default set and assignments: all CPUs, or with strict-cpu-reservation all but the
  // reserved ones.
  CpuSet Managed(const Machine& machine) const;

  // The same for one container of the pod, with all that it avoids.
  StaticPolicy For(std::string_view container) const;

  friend bool operator==(const StaticPolicy&, const StaticPolicy&) = default;
};

// The CPUs of reservedSystemCPUs; empty if none are listed.
// Errors: kInvalidArgument with the kubelet's text if a listed CPU is not online.
// Source: kubelet cmd/kubelet/app/server.go, getReservedCPUs.
Result<CpuSet> ReservedSystemCpus(const Machine& machine, const KubeletConfig& config);

// Resolves options and reserved CPUs: the CPUs of reservedSystemCPUs; or, if it is empty, the
// number in kubeReserved and systemReserved, rounded up, chosen like the CPUs of a container.
// `config.cpu_manager_policy` must be static. Errors: kInvalidArgument with the text with which the
// kubelet refuses to start. Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go,
// NewStaticPolicy; cpu_manager.go, NewManager; container_manager_linux.go (reservedSystemCPUs).
Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config);

// The state of a node without containers.
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

// Those of the free CPUs that a container can be assigned under the policy (CoreUse, avoided).
CpuSet CanBeAssigned(const Machine& machine, const StaticPolicy& policy, const CpuSet& free);

// `count` of them, as Allocate would choose them without an affinity.
// Errors: kInvalidArgument with the text of the refusal.
Result<CpuSet> Preview(const Machine& machine, const StaticPolicy& policy, const CpuSet& free,
                       int64_t count);

// Allocates the container's exclusive CPUs, unless it has them or is not entitled to any, and
// updates the reusable CPUs. Returns the refusal, or nullopt. After a refusal, discard `state`.
// Refusals: SMTAlignmentError, UnexpectedAdmissionError.
// Source: policy_static.go, Allocate.
// Differs: a container that has its CPUs keeps them without any check. With full-pcpus-only, the
// kubelet first checks whether the rest of the node has enough whole cores. So it refuses a running
// pod when the kubelet restarts.
std::optional<Refusal> Allocate(const Machine& machine, const StaticPolicy& policy, const Pod& pod,
                                const Container& container,
                                const topologymanager::TopologyHint& affinity, CpuState& state);

// Removes the entry of the container in `assignments`, and nothing else.
void RemoveAssignment(const ContainerKey& key, CpuState& state);

// Releases the container's CPUs, except those that another container is assigned too. If its pod
// has CPUs as a whole, they are released with those of the last container.
// Source: policy_static.go, RemoveContainer.
// Differs: the pod cannot reuse released CPUs; every pod can be assigned them.
void ReleaseContainer(const ContainerKey& key, CpuState& state);

// Releases all CPUs of the pod.
void ReleasePod(const std::string& pod_uid, CpuState& state);

// These CPUs of the machine, and no others, are offline now. They leave the default set, so that no
// container gets them; those that are online again are in it as before. Assignments stay.
void SetOffline(const CpuSet& offline, CpuState& state);

// Nothing gets these CPUs until DropClaim, or until the pod is released or the container allocated
// CPUs: the container is on them, and so is another one. They must be in the default set, or
// withheld because of another container.
void Withhold(const ContainerKey& key, const CpuSet& cpus, CpuState& state);
// Does nothing for another container.
void DropClaim(const ContainerKey& key, CpuState& state);

// Checks a state that was loaded from disk against the machine and the policy.
// A state without default set and assignments passes: nothing was saved yet. Use InitialState then.
// Errors: kCorrupt with the kubelet's text, without its prefix; kInvalidArgument if the state would
// be valid with other reserved CPUs or another strict-cpu-reservation.
// Source: policy_static.go, validateState.
// Differs: with strict-cpu-reservation the default set may be empty if the assignments cover all
// CPUs but the reserved ones; the kubelet cannot restart on a fully used node. CPUs that two pods
// are assigned, and a container without CPUs, are errors; the kubelet does not check them. The CPUs
// of a pod as a whole may overlap the default set, as in the kubelet: see DropStalePods.
Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const CpuState& state);

// Adds the CPUs that the machine has and the loaded state lacks to the default set: they have come
// online since it was saved. Empty, and nothing is added, if the state is not valid even so, or if
// it is one of other reservations (ValidateLoaded).
// Differs: the kubelet does not start with such a file.
CpuSet AddNewCpus(const Machine& machine, const StaticPolicy& policy, CpuState& state);

// Broken invariants of a state that alignd made, one sentence each; empty if it is valid:
// assignments and default set are disjoint, CPUs of different pods are disjoint, default set and
// assignments together are the managed CPUs but the withheld ones and those that are offline, the
// default set has no CPU that is offline, no reserved CPU is assigned, a pod can reuse only its own
// CPUs, every container has its original CPUs, if it has any, and none with exclusive CPUs has a
// share.
std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const CpuState& state);

}  // namespace alignd::cpumanager
