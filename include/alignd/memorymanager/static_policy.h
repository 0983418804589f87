// The memory manager's Static policy: hints, allocation, release and the checks at start. All
// functions are pure; the NUMA affinity is an argument.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "alignd/topologymanager/hint.h"

namespace alignd::memorymanager {

// How the memory manager works on this machine. Made once; a value.
struct StaticPolicy {
  // NUMA node id -> memory type -> bytes kept for the system.
  std::map<int, std::map<std::string, uint64_t>> system_reserved;

  friend bool operator==(const StaticPolicy&, const StaticPolicy&) = default;
};

// `config.memory_manager_policy` must be Static.
// Errors: kInvalidArgument with the text with which the kubelet refuses to start.
// Differs: a reservation that a node has no memory for is refused as well; the kubelet's unsigned
// subtraction makes it 16 exabytes of free memory.
// Source: kubelet pkg/kubelet/cm/memorymanager/memory_manager.go, getSystemReservedMemory.
Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config);

// The state of a node on which nothing runs. Source: policy_static.go, getDefaultMachineState.
MemoryState InitialState(const Machine& machine, const StaticPolicy& policy);

// The memory and huge page hints of one container; empty for "no opinion", which is also the answer
// where nothing fits: Allocate then refuses.
// Source: policy_static.go, GetTopologyHints.
topologymanager::HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& policy,
                                                const MemoryState& state, const Pod& pod,
                                                const Container& container);

// Source: policy_static.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const StaticPolicy& policy,
                                          const MemoryState& state, const Pod& pod);

// What became of a container's memory.
struct Placement {
  std::optional<Refusal> refusal;
  // False if the search for the nodes gave up (topologymanager::kMaxSearchSteps): fewer nodes may
  // hold the memory, and a refusal for want of a preferred set may be one too many.
  bool exact = true;
};

// Gives the container its memory blocks, first out of what the pod's init containers hold on the
// same nodes. After a refusal `state` is to be thrown away.
// Differs: never takes a node out of a group that others use; an init container that has run (its
// pod's later containers hold memory, it does not) gets nothing again; a memory type that the
// machine lacks is refused. Source: policy_static.go, Allocate.
Placement Allocate(const Machine& machine, const StaticPolicy& policy, const Pod& pod,
                   const Container& container, const topologymanager::TopologyHint& affinity,
                   MemoryState& state);

// The container starts: init containers before it (not sidecars) have ended and lose their blocks.
// Source: memory_manager.go, AddContainer.
void ContainerStarts(const Pod& pod, const std::string& container, MemoryState& state);

// Source: policy_static.go, RemoveContainer.
void ReleaseContainer(const ContainerKey& key, MemoryState& state);
void ReleasePod(const std::string& pod_uid, MemoryState& state);

// What the kubelet has once it has refused a pod and cleaned up: `partial`, the state in which the
// refusal came, with what the pod got in it given back. It differs from `before` only inside
// groups, in which node memory counts as reserved (GiveBack takes the lowest node, Allocate took
// what was free). A pod that held memory before keeps it: then the answer is `before`.
MemoryState AfterRefusal(const std::string& pod_uid, const MemoryState& before,
                         MemoryState partial);

// Checks a state that was loaded from disk against the machine and the policy. A state without any
// machine and assignments is fine: InitialState is to take its place.
// Errors: kCorrupt with the kubelet's text, without its prefix.
// Differs: a torn group is refused too; the kubelet's answer depends on the order of a Go map.
// Source: policy_static.go, validateState.
Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const MemoryState& state);

// Broken invariants of a state that we made ourselves, one sentence each: memory neither created
// nor lost, groups consistent, Σ blocks = memory held.
std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const MemoryState& state);

}  // namespace alignd::memorymanager
