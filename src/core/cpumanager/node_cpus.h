// CPUs of the node for a container or for a pod as a whole. Private to the module.
#pragma once

#include <cstdint>
#include <optional>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::cpumanager {

// Only whole cores. `free`: the CPUs that count as free.
// Source: kubelet pkg/kubelet/cm/cpumanager/policy_static.go, enforceSMTAlignment.
std::optional<Refusal> CheckWholeCores(const Machine& machine, const CpuSet& free, int64_t count);

// full-pcpus-only of the node. A core with a reserved CPU is never allocated as a whole, and CPUs
// of the pod's ended init containers do not count. CoreUse::kWhole is checked where CPUs are
// chosen.
std::optional<Refusal> CheckOption(const Machine& machine, const StaticPolicy& policy,
                                   const CpuState& state, int64_t count);

// `count` of the allocatable CPUs: as many as possible on the affinity, the others anywhere.
// Source: policy_static.go, allocateCPUs.
Result<CpuSet> ChooseCpus(const Machine& machine, const PolicyOptions& options,
                          const CpuSet& allocatable, const topologymanager::TopologyHint& affinity,
                          int64_t count);

// A hint for every set of NUMA nodes that has all of `reusable` and, with `available`, `request`
// CPUs. Only sets of nodes with CPUs.
// Source: policy_static.go, generateCPUTopologyHints.
topologymanager::Hints HintsOver(const Machine& machine, const PolicyOptions& options,
                                 const CpuSet& available, const CpuSet& reusable, int64_t request);

// Returns those of the CPUs to the default set that are in no assignment any more.
void ReturnToDefaultSet(CpuSet cpus, CpuState& state);

}  // namespace alignd::cpumanager
