// Moves running containers to other exclusive CPUs before the configuration changes.
#pragma once

#include <chrono>

#include "alignd/admission/transition.h"
#include "alignd/base/result.h"
#include "allocation/allocation_manager.h"
#include "reconcile/container_registry.h"

namespace alignd::daemon {

// Within how long all moves must be on the disk, and then in the runtime.
inline constexpr std::chrono::seconds kMovePatience{10};

// Assigns the containers of the transition that move their new CPUs, and returns when the runtime
// has applied them: no container is on the old ones any more. Shared containers leave the new CPUs
// first. After an error, all containers are assigned their old CPUs again.
// Errors: a container could not move, with the reason; kDeadlineExceeded: the runtime has not
// applied a move in time.
Result<Done> MoveContainers(const admission::Transition& transition,
                            allocation::AllocationManager& allocation,
                            const reconcile::ContainerRegistry& registry);

}  // namespace alignd::daemon
