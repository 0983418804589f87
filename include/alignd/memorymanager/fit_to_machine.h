// A memory state, adapted to the machine after a reboot, or to another reservation for the system.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/memorymanager/static_policy.h"
#include "alignd/pod/pod.h"

namespace alignd::memorymanager {

// The same assignments on a machine whose NUMA nodes have more or less memory than the saved state
// says: the kernel's own memory differs by some MB from boot to boot. nullopt if ValidateLoaded
// would find another difference, or if the assigned memory does not fit now.
// Differs: the kubelet then does not start until its state file is removed.
std::optional<MemoryState> FitToMachine(const Machine& machine, const StaticPolicy& policy,
                                        const MemoryState& state);

// Whether a state for which FitToMachine has no result is sound, on this machine, with other memory
// reserved for the system: with what it says itself. That is a change of the configuration.
bool IsOfOtherReservations(const Machine& machine, const StaticPolicy& policy,
                           const MemoryState& state);

// The same assignments with the reservations of `policy`. Containers whose memory their NUMA nodes
// do not have then are in `refused`, with the reason; the result is without them. They are booked
// in the order of their keys.
MemoryState Rebooked(const Machine& machine, const StaticPolicy& policy, const MemoryState& state,
                     std::map<ContainerKey, std::string>& refused);

}  // namespace alignd::memorymanager
