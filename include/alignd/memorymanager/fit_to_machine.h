// A saved memory state on a machine that has booted since.
#pragma once

#include <optional>

#include "alignd/machine/machine.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/memorymanager/static_policy.h"

namespace alignd::memorymanager {

// The same assignments on a machine whose NUMA nodes have more or less memory than when the state
// was saved: how much the kernel keeps for itself differs by some MB from boot to boot. nullopt if
// anything else differs from what ValidateLoaded wants, or if what is assigned does not fit now.
// Differs: the kubelet does not start then, until its file is removed.
std::optional<MemoryState> FitToMachine(const Machine& machine, const StaticPolicy& policy,
                                        const MemoryState& state);

}  // namespace alignd::memorymanager
