// The memory of a container to which the memory manager has assigned memory cannot be resized: its
// NUMA nodes were chosen for the booked amount.
// Source: kubelet pkg/kubelet/allocation/handlers.go: Infeasible with Memory Manager policy Static.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "alignd/admission/node.h"
#include "alignd/admission/node_state.h"
#include "alignd/pod/pod.h"
#include "alignd/pod/refusal.h"
#include "allocation/admission_request.h"

namespace alignd::allocation {

// The bytes of ordinary memory that the container is assigned, without huge pages; nullopt: none.
std::optional<uint64_t> AssignedMemory(const admission::NodeState& state, const ContainerKey& key);
// Those that the pod is assigned as a whole.
std::optional<uint64_t> AssignedMemory(const admission::NodeState& state,
                                       const std::string& pod_uid);

// The refusal of another amount. `pod`: its name, or its UID. `asked`: bytes; nullopt: no limit.
Refusal RefusedMemoryResize(const admission::NodeState& state, const ContainerKey& key,
                            const std::string& pod, std::optional<uint64_t> asked);
Refusal RefusedMemoryResize(const admission::NodeState& state, const std::string& pod_uid,
                            const std::string& pod, uint64_t asked);

// The refusal of a container of the pod, or of the `wanted` one if that is among them, that asks
// for another amount than it is assigned. Not of init containers: the others take over the memory
// that these are assigned. nullopt: there is none. Memory of ResourceClaims is no resize: whether
// the first decision about the container counted it, and whether this one does, depends on which
// source answered. Differs: the kubelet does not look at the amount of a container that is created
// again.
std::optional<Refusal> RefuseMemoryResize(const admission::Node& node,
                                          const admission::NodeState& state, const Pod& pod,
                                          const std::string& wanted,
                                          const MemoryInCri& in_cri = {});

}  // namespace alignd::allocation
