// Everything because of which a machine cannot be managed with a configuration.
#pragma once

#include <vector>

#include "alignd/config/config_problem.h"
#include "alignd/machine/machine.h"

namespace alignd::admission {

// The problems of all managers, in the order in which the kubelet starts them. Empty: Node::Make
// succeeds. Otherwise its error is the first one's.
// Source: kubelet pkg/kubelet/cm/container_manager_linux.go, NewContainerManager.
std::vector<ConfigProblem> FindProblems(const Machine& machine, const KubeletConfig& config);

}  // namespace alignd::admission
