// Containers of the shared pool that stay on one NUMA node (CpuState::shares): what they request is
// accounted there. Each thousandth of a CPU that they request is backed by a CPU of the default set
// on their NUMA node that is not reserved. So these CPUs, as many as are needed, are not assigned
// exclusively. Pure functions. Differs: the kubelet has no such containers.
#pragma once

#include <cstdint>
#include <set>
#include <string>

#include "alignd/base/cpu_set.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"

namespace alignd::cpumanager {

// Thousandths of a CPU.
inline constexpr int64_t kMillisPerCpu = 1000;

// What these containers request at one time on the NUMA node, in thousandths of a CPU: of each pod,
// its app containers and sidecars together, or its largest init container with all its sidecars,
// whichever is more.
int64_t SharesOn(const CpuState& state, int numa_id);

// The same of one pod, on all NUMA nodes.
int64_t SharesOf(const CpuState& state, const std::string& pod_uid);

// The CPUs on the NUMA node that can back them: online ones of the default set, without reserved
// ones.
CpuSet BackingOn(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                 int numa_id);

// How many of them back what is requested: at least one if a container stays there.
int64_t BackedOn(const CpuState& state, int numa_id);

// Whether the container can have that share, in place of its present one, with `exclusive` CPUs of
// the NUMA node assigned besides.
bool FitsOn(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
            const ContainerKey& key, const NodeShare& share, int64_t exclusive = 0);

// Adds shares that were saved apart from the CPUs: of each NUMA node all, or none if the default
// set does not back them all, or one is of a container with exclusive CPUs. Returns the ids of
// those of which none was added, of NUMA nodes that the machine does not have, too.
std::set<int> TakeShares(const Machine& machine, const StaticPolicy& policy,
                         const SharedMap<ContainerKey, NodeShare>& shares, CpuState& state);

// The CPUs of the default set that must stay in it: of each NUMA node as many as are backed, or
// all, if CPUs have gone offline. First those that the policy avoids in any case, then those of
// cores that are not free as a whole, so that as many whole cores as possible can be assigned. With
// full-pcpus-only, whole cores are held back.
// Deterministic. Empty without such containers.
CpuSet HeldBack(const Machine& machine, const StaticPolicy& policy, const CpuState& state);

// The policy for decisions that leave these CPUs in the default set.
StaticPolicy WithHeldBack(const Machine& machine, StaticPolicy policy, const CpuState& state);

}  // namespace alignd::cpumanager
