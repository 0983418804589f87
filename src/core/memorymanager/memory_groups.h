// Groups of NUMA nodes, and the books of what is reserved in them. A node serves containers either
// alone or in one group, never both. Private to the room.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "alignd/base/numa_mask.h"
#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"
#include "core/memorymanager/memory_request.h"

namespace alignd::memorymanager {

// Whether a container may be placed on exactly these nodes: every node that is in use at all is in
// use as this very group.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, calculateHints.
bool GroupsAllow(const Machine& machine, const MemoryState& state, NumaMask nodes);

// Whether the nodes together have that much allocatable memory of every type.
bool HaveAllocatable(const Machine& machine, const MemoryState& state, NumaMask nodes,
                     const MemoryRequest& request);

// Whether the nodes together have that much free memory of every type.
// Source: policy_static.go, isAffinitySatisfyRequest.
bool HaveFree(const Machine& machine, const MemoryState& state, NumaMask nodes,
              const MemoryRequest& request);

// The same, counting what the pod's init containers hold on exactly these nodes as free.
bool HaveFreeOrReusable(const Machine& machine, const MemoryState& state, const Pod& pod,
                        NumaMask nodes, const MemoryRequest& request);

// Takes up to `bytes` of that type from what the pod's init containers hold on exactly these nodes,
// first container first, and returns how much it took. A block of size 0 stays.
// Differs: the kubelet shrinks these blocks also by what it did not reuse (after a restart, or when
// another pod was admitted in between), and so loses memory. Here both are one step.
// Source: policy_static.go, getPodReusableMemory, updateInitContainersMemoryBlocks.
uint64_t TakeFromInitContainers(const Pod& pod, const std::vector<int>& nodes,
                                const std::string& type, uint64_t bytes, MemoryState& state);

// Makes the nodes one group with one more assignment each, and reserves `bytes` of that type there,
// lowest node first, each as much as it has. Returns what did not fit.
// Source: policy_static.go, updateMachineState.
uint64_t Book(const std::vector<int>& nodes, const std::string& type, uint64_t bytes,
              std::map<int, NumaMemory>& machine);

// Undoes the booking of one block. In a group the lowest node gets back first, wherever the memory
// was booked: only the group's sum counts.
// Source: policy_static.go, releaseMemory.
void GiveBack(const Block& block, std::map<int, NumaMemory>& machine);

}  // namespace alignd::memorymanager
