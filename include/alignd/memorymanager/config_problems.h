// Everything because of which the memory manager does not start.
#pragma once

#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/machine/machine.h"

namespace alignd::memorymanager {

// Problems of the reserved memory; the first is the error of MakeStaticPolicy.
// `config.memory_manager_policy` must be Static.
std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config);

// Those of them that depend on reservedMemory and the machine alone: NUMA nodes that the machine
// does not have.
std::vector<ConfigProblem> FindUnknownNodes(const Machine& machine, const KubeletConfig& config);

}  // namespace alignd::memorymanager
