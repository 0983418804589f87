// Memory of containers that run with it, but are not in the state.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/memorymanager/memory_state.h"
#include "alignd/pod/pod.h"

namespace alignd::memorymanager {

// Books the blocks and assigns them to the container, which must have none. If its pod has memory
// as a whole, the blocks are parts of that and are not booked.
// Errors: kInvalidArgument, and the state is unchanged: the nodes do not exist, do not have such
// memory or not enough of it free, or other containers use them in another group.
Result<Done> AdoptContainer(const ContainerKey& key, const std::vector<Block>& blocks,
                            MemoryState& state);

// Books what the pod has as a whole, unless it has it already. No container of the pod may have
// memory yet. Errors: as above.
Result<Done> AdoptPod(const std::string& pod_uid, const std::vector<Block>& blocks,
                      MemoryState& state);

}  // namespace alignd::memorymanager
