// The CPUs that a pod can be assigned, and the choice among them, where the pod asks how they lie
// on cores (CoreUse). Private to the core.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "alignd/base/cpu_set.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::cpumanager {

// All CPUs of the groups (cores, caches, sockets) that have one of `cpus`.
CpuSet GroupsTouching(const std::vector<CpuGroup>& groups, const CpuSet& cpus);

// The CPUs of the cores that are in `cpus` as a whole.
CpuSet WholeCoresIn(const Machine& machine, const CpuSet& cpus);

// The options, with full-pcpus-only if the pod requires whole cores.
PolicyOptions OptionsOf(const StaticPolicy& policy);

// Those of the `free` CPUs that can be assigned: not avoided ones; with kWhole, only CPUs of cores
// that are in them as a whole; with kOneOfEach, one CPU of each core that `held` has no CPU of. Of
// such a core, the lowest of `reusable` if it has one, or else the lowest.
// Source: koordinator pkg/scheduler/plugins/nodenumaresource/resource_manager.go,
// filterCPUsByRequiredCPUBindPolicy.
CpuSet Offered(const Machine& machine, const StaticPolicy& policy, CpuSet free,
               const CpuSet& reusable = {}, const CpuSet& held = {});

// The CPUs of the pod that its later containers cannot reuse.
CpuSet NotReusable(const CpuState& state, const std::string& pod_uid);

// `count` of the offered CPUs, on the affinity as far as possible. With kOneOfEachFirst, each NUMA
// node (with prefer-align-cpus-by-uncorecache, each cache) has as many of them as the options
// alone would give it, on as many cores as possible.
// The refusal is SMTAlignmentError if the pod's policy is the cause.
struct ChosenCpus {
  CpuSet cpus = {};
  std::optional<Refusal> refusal = {};
};
ChosenCpus ChooseOffered(const Machine& machine, const StaticPolicy& policy, const CpuSet& offered,
                         const topologymanager::TopologyHint& affinity, int64_t count);

}  // namespace alignd::cpumanager
