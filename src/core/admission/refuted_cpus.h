// CPUs of the state that running containers refute. Private to the module.
#pragma once

#include <vector>

#include "alignd/admission/adoption.h"
#include "alignd/cpumanager/cpu_state.h"

namespace alignd::admission {

// Removes from `state` the CPUs that the containers refute (FindRefuted), also those of the
// containers that refute them, and sets `by_runtime` of all these containers. Returns what was
// removed because another container runs there, one note for each pair; `id` is empty if nothing of
// that assignment runs.
std::vector<AdoptionNote> DropRefutedCpus(const Node& node,
                                          std::vector<MarkedContainer>& containers,
                                          cpumanager::CpuState& state);

}  // namespace alignd::admission
