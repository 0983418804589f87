// Everything because of which the CPU manager does not start.
#pragma once

#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/cpumanager/policy_options.h"
#include "alignd/machine/machine.h"

namespace alignd::cpumanager {

// Problems of reservedSystemCPUs, of cpuManagerPolicyOptions and, with the static policy, of the
// reserved CPUs, in the kubelet's order: ReservedSystemCpus and MakeStaticPolicy give the first.
std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config);

// Those of cpuManagerPolicyOptions; the first is the error of ParsePolicyOptions. `options`: as far
// as they could be read.
std::vector<ConfigProblem> FindOptionProblems(const Machine& machine, const KubeletConfig& config,
                                              PolicyOptions& options);

}  // namespace alignd::cpumanager
