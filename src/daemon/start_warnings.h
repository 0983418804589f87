// What a start should not go unnoticed with: alignd runs, but probably not as it was meant.
#pragma once

#include <vector>

#include "alignd/admission/node.h"
#include "daemon/options.h"
#include "daemon/start_problem.h"

namespace alignd::daemon {

// Policies that do nothing or cannot work, and all CPUs reserved.
std::vector<StartProblem> FindPolicyWarnings(const Options& options, const admission::Node& node);

// Feature gates that alignd does not know. A running daemon has them as a condition.
std::vector<StartProblem> FindGateWarnings(const Options& options, const KubeletConfig& config);

// Directories that are the kubelet's, and a cgroup root without cgroups.
std::vector<StartProblem> FindDirectoryWarnings(const Options& options);

// Each as a warning in the log.
void LogWarnings(const std::vector<StartProblem>& warnings);

}  // namespace alignd::daemon
