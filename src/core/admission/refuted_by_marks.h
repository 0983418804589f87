// Memory and devices of the state that the marks of running containers refute. Private to the
// module.
#pragma once

#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/devicemanager/device_state.h"
#include "alignd/memorymanager/memory_state.h"

namespace alignd::admission {

// One mark is enough, unlike with CPUs: nothing changes the memory or the devices of a container
// while it runs, and a runtime keeps annotations as they are.
//
// Removes from `state` what a container has in it, but not in its mark (an init container may have
// a part of it only: later containers of its pod take memory over); and what a container has that
// does not run, if what is left is not enough for the marks of those that run. Returns one note for
// each. `containers`: all that run with an assignment in the state or in a mark.
std::vector<AdoptionNote> DropRefutedMemory(const Node& node,
                                            const std::vector<MarkedContainer>& containers,
                                            memorymanager::MemoryState& state);

// The same of the devices; and what a container has, by the state but not by its mark, that another
// pod's container has by its mark. If both have it by their marks, the state counts.
std::vector<AdoptionNote> DropRefutedDevices(const std::vector<MarkedContainer>& containers,
                                             devicemanager::DeviceState& state);

}  // namespace alignd::admission
