// The resize of a container's exclusive CPUs in place: hints, the choice of CPUs, and the change of
// the state. Pure functions. A resize up only adds CPUs of the default set. A resize down only
// removes CPUs that the container was not assigned when it was created (the original ones). A
// resize to shared CPUs removes all of them, the original ones included.
#pragma once

#include <cstdint>

#include "alignd/base/cpu_set.h"
#include "alignd/base/numa_mask.h"
#include "alignd/base/result.h"
#include "alignd/cpumanager/cpu_state.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/cpumanager/static_policy.h"
#include "alignd/machine/machine.h"
#include "alignd/pod/pod.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::cpumanager {

// The CPUs that can be added to those of the container: in the default set and not reserved. With
// full-pcpus-only, only CPUs of cores that the container could have as a whole: all CPUs of the
// core are such CPUs or its own.
CpuSet Addable(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
               const CpuSet& own);

// The cpu hints of a resize up: one for every set of NUMA nodes that has all nodes of `held` and,
// with the `addable` CPUs, `added` CPUs more than these. `held` has the CPUs of the container; with
// topology scope pod, those of all containers of its pod. Preferred are the sets that would be
// preferred for the new number of CPUs at admission.
// Source: KEP-5554 (planned for Kubernetes 1.38).
topologymanager::HintsByResource ResizeHints(const Machine& machine, const StaticPolicy& policy,
                                             const CpuSet& held, const CpuSet& addable,
                                             int64_t added);

// What a container keeps, and what it can have besides that.
struct ResizeChoice {
  CpuSet kept;
  CpuSet offered;
  int64_t count = 0;    // of all CPUs that it has in the end
  NumaMask nodes = {};  // further NUMA nodes to use before all others
};

// The kept CPUs and as many of the offered ones as are missing. They are on the NUMA nodes of the
// kept CPUs, if these nodes have enough of them; else on as few further nodes as possible, near
// ones first. On these nodes: first the rest of the cores that the container has a part of (with
// distribute-cpus-across-cores: last), then its uncore caches, then its sockets, packed as at
// admission. With distribute-cpus-across-numa, the nodes share all of its CPUs as evenly as
// possible. With full-pcpus-only, the result has only whole cores.
// Deterministic. Errors: kInvalidArgument, why there are no such CPUs; the kubelet's text where it
// has one.
Result<CpuSet> ChooseForResize(const Machine& machine, const PolicyOptions& options,
                               const ResizeChoice& choice);

// The CPUs of the container after a resize up to `count`. `nodes`: the affinity; more nodes are
// used only if these, with the container's own, have too few addable CPUs. A container of the
// shared pool gets its CPUs as at admission.
// Errors: as ChooseForResize. `key` must have fewer exclusive CPUs than that, or none.
Result<CpuSet> Grown(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                     const ContainerKey& key, int64_t count, NumaMask nodes);

// The CPUs of the container after a resize down to `count`: those stay that are nearest to the
// original ones; if there are none, those on few NUMA nodes, of `nodes` before all others.
// Errors: as ChooseForResize. `key` must have more exclusive CPUs than that.
Result<CpuSet> Shrunk(const Machine& machine, const StaticPolicy& policy, const CpuState& state,
                      const ContainerKey& key, int64_t count, NumaMask nodes = {});

// Assigns the CPUs to the container in place of those that it has, and records the original ones:
// none of a container that has, or gets, none (CpuState::WasShared). No CPUs: it is in the shared
// pool. CPUs that it no longer has return to the default set, unless another container has them
// too.
void ApplyResize(const ContainerKey& key, const CpuSet& cpus, CpuState& state);

}  // namespace alignd::cpumanager
