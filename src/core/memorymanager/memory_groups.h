// Groups of NUMA nodes and the memory that is reserved in them. Containers use a node either alone
// or as part of one group, never both. Private to the module.
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

// Whether a container may use exactly these nodes: each of them is unused or in use as this group.
// Source: kubelet pkg/kubelet/cm/memorymanager/policy_static.go, calculateHints.
bool GroupsAllow(const Machine& machine, const MemoryState& state, NumaMask nodes);

// Whether the nodes in sum have enough allocatable memory of every type.
bool HaveAllocatable(const Machine& machine, const MemoryState& state, NumaMask nodes,
                     const MemoryRequest& request);

// Whether the nodes in sum have enough free memory of every type.
// Source: policy_static.go, isAffinitySatisfyRequest.
bool HaveFree(const Machine& machine, const MemoryState& state, NumaMask nodes,
              const MemoryRequest& request);

// The same; memory of the pod's init containers on exactly these nodes is free as well.
bool HaveFreeOrReusable(const Machine& machine, const MemoryState& state, const Pod& pod,
                        NumaMask nodes, const MemoryRequest& request);

// Takes up to `bytes` of that type from the blocks of the pod's init containers on exactly these
// nodes, first container first. Returns the bytes taken. A block of size 0 stays.
// Differs: the kubelet also shrinks these blocks by memory that it did not reuse (after a restart,
// or if it admitted another pod in between), and so loses memory. Here both are one step. Source:
// policy_static.go, getPodReusableMemory, updateInitContainersMemoryBlocks.
uint64_t TakeFromInitContainers(const Pod& pod, const std::vector<int>& nodes,
                                const std::string& type, uint64_t bytes, MemoryState& state);

// Makes the nodes one group with one more assignment each, and reserves `bytes` of that type there,
// lowest node first, as much as each has. Returns the bytes that did not fit.
// Source: policy_static.go, updateMachineState.
uint64_t Book(const std::vector<int>& nodes, const std::string& type, uint64_t bytes,
              std::map<int, NumaMemory>& machine);

// Undoes the booking of one block. In a group, memory returns to the lowest node first, wherever it
// was booked: only the sum of the group matters.
// Source: policy_static.go, releaseMemory.
void GiveBack(const Block& block, std::map<int, NumaMemory>& machine);

}  // namespace alignd::memorymanager
