// Everything because of which a machine cannot be managed with a configuration.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/machine/machine.h"

namespace alignd::admission {

// The problems of all managers, in the order in which the kubelet starts them. Empty: Node::Make
// succeeds. Otherwise its error is the first one's.
// Source: kubelet pkg/kubelet/cm/container_manager_linux.go, NewContainerManager.
std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config);

// Those of them that a configuration has whatever its fields `wrong` should have been, which could
// not be read: reservedSystemCPUs and reservedMemory that the machine does not have, and each
// policy option that is none by itself. A policy among `wrong` counts as one that uses its options.
std::vector<ConfigProblem> FindProblemsOfValues(const Machine& machine, const KubeletConfig& config,
                                                const std::set<std::string>& wrong);

}  // namespace alignd::admission
