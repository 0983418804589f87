// A saved memory state, adapted to the machine after a reboot.
#pragma once

#include <optional>

#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::memorymanager {

// The same assignments on a machine whose NUMA nodes have more or less memory than the saved state
// says: the kernel's own memory differs by some MB from boot to boot. nullopt if ValidateLoaded
// would find another difference, or if the assigned memory does not fit now.
// Differs: the kubelet then does not start until its state file is removed.
std::optional<MemoryState> FitToMachine(const Machine& machine, const StaticPolicy& policy,
                                        const MemoryState& state);

}  // namespace alignd::memorymanager
