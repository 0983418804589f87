// Everything because of which the topology manager does not start.
#pragma once

#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/machine/machine.h"

namespace alignd::topologymanager {

// Problems of topologyManagerPolicyOptions; the first is the error of Policy::Make.
std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config);

}  // namespace alignd::topologymanager
