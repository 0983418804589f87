// The CPUs of a pod with pod-level resources in topology scope pod (feature gate
// PodLevelResourceManagers): the pod is assigned CPUs as a whole (its bubble), and its containers
// are assigned parts of them. Eligible containers have CPUs of their own. The others share the
// rest, the pod's pool.
#pragma once

#include <optional>

#include "alignd/cpumanager/cpu_state.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::cpumanager {

// The cpu hints of the pod's request as a whole. Empty if the pod has no such request; an empty
// list if its shared containers would have no CPUs, or if it has another number of CPUs already.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, GetPodTopologyHints (1.38).
topologymanager::HintsByResource WholePodHints(const Machine& machine, const StaticPolicy& policy,
                                               const CpuState& state, const Pod& pod);

// Allocates the pod's CPUs, and to each container its part. What the pod has already stays as it
// is, and only what is missing is added. The parts of eligible containers are their original CPUs,
// too. If the parts do not fit together (a part without an
// earlier container's, a part outside the whole), the pod is allocated afresh. Returns the refusal,
// or nullopt. After a refusal, discard `state`.
// Refusals: EmptyPodSharedPoolError, SMTAlignmentError, UnexpectedAdmissionError.
// Source: policy_static.go, AllocatePod (1.38).
// Differs: up to 1.37, the kubelet allocates the CPUs of a running pod a second time when it
// restarts, and loses the first ones. A container never has CPUs outside of its pod's.
std::optional<Refusal> AllocateWholePod(const Machine& machine, const StaticPolicy& policy,
                                        const Pod& pod,
                                        const topologymanager::TopologyHint& affinity,
                                        CpuState& state);

// Forgets the CPUs of pods as a whole that overlap the default set: a state file that was not
// finished. For a state that was loaded, before any allocation.
void DropStalePods(CpuState& state);

}  // namespace alignd::cpumanager
