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

// The settings of the memory manager on this machine. Made once; a value.
struct StaticPolicy {
  // NUMA node id -> memory type -> bytes reserved for the system.
  std::map<int, std::map<std::string, uint64_t>> system_reserved;

  friend bool operator==(const StaticPolicy&, const StaticPolicy&) = default;
};

// `config.memory_manager_policy` must be Static.
// Errors: kInvalidArgument with the text with which the kubelet refuses to start.
// Differs: a reservation larger than the memory of its node is an error as well. In the kubelet, an
// unsigned subtraction makes it 16 exabytes of free memory.
// Source: kubelet pkg/kubelet/cm/memorymanager/memory_manager.go, getSystemReservedMemory.
Result<StaticPolicy> MakeStaticPolicy(const Machine& machine, const KubeletConfig& config);

// The state of a node without containers. Source: policy_static.go, getDefaultMachineState.
MemoryState InitialState(const Machine& machine, const StaticPolicy& policy);

// The memory and huge page hints of one container; empty for "no opinion". Also empty if the
// request fits nowhere: Allocate then refuses. Source: policy_static.go, GetTopologyHints.
topologymanager::HintsByResource ContainerHints(const Machine& machine, const StaticPolicy& policy,
                                                const MemoryState& state, const Pod& pod,
                                                const Container& container);

// Source: policy_static.go, GetPodTopologyHints.
topologymanager::HintsByResource PodHints(const Machine& machine, const StaticPolicy& policy,
                                          const MemoryState& state, const Pod& pod);

// The result of the allocation of memory.
struct Placement {
  std::optional<Refusal> refusal;
  // False if the search for the nodes ended at its limit (topologymanager::kMaxSearchSteps): fewer
  // nodes may be enough, and a refusal because no set is preferred may be wrong.
  bool exact = true;
};

// Allocates the container's memory blocks, first from blocks of the pod's init containers on the
// same nodes. After a refusal, discard `state`.
// Differs: never takes a node out of a group that other containers use. An ended init container
// (later containers of its pod have memory, it has none) is not assigned memory again. A memory
// type that the machine does not have is refused. Source: policy_static.go, Allocate.
Placement Allocate(const Machine& machine, const StaticPolicy& policy, const Pod& pod,
                   const Container& container, const topologymanager::TopologyHint& affinity,
                   MemoryState& state);

// The container starts: init containers before it (not sidecars) have ended and lose their blocks.
// Source: memory_manager.go, AddContainer.
void ContainerStarts(const Pod& pod, const std::string& container, MemoryState& state);

// Source: policy_static.go, RemoveContainer.
void ReleaseContainer(const ContainerKey& key, MemoryState& state);
void ReleasePod(const std::string& pod_uid, MemoryState& state);

// The kubelet's state after it has refused a pod and cleaned up: `partial`, the state at the
// refusal, without the memory of the pod. It differs from `before` only inside groups: in which
// node the memory is reserved (GiveBack starts at the lowest node, Allocate takes free memory). A
// pod that had memory before keeps it: then the result is `before`.
MemoryState AfterRefusal(const std::string& pod_uid, const MemoryState& before,
                         MemoryState partial);

// Checks a state that was loaded from disk against the machine and the policy. A state without any
// machine and assignments passes: use InitialState then.
// Errors: kCorrupt with the kubelet's text, without its prefix.
// Differs: an inconsistent group is an error as well; the kubelet's result depends on the order of
// a Go map. Source: policy_static.go, validateState.
Result<Done> ValidateLoaded(const Machine& machine, const StaticPolicy& policy,
                            const MemoryState& state);

// Broken invariants of a state that alignd made, one sentence each: no memory is created or lost,
// groups are consistent, the blocks add up to the reserved memory.
std::vector<std::string> BrokenInvariants(const Machine& machine, const StaticPolicy& policy,
                                          const MemoryState& state);

}  // namespace alignd::memorymanager
