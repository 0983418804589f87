// The resource managers of the kubelet: how its files configure them, and the changes that turn
// them off.
#pragma once

#include <string>
#include <vector>

#include "alignd/base/result.h"
#include "alignd/config/kubelet_config.h"
#include "kubelet/file_view.h"
#include "kubelet/plan.h"
#include "kubelet/setup.h"

namespace alignd::kubelet {

// The kubelet's configuration as its files and flags say. Flags win over files.
// Errors: kInvalidArgument: a field is wrong, or a flag is given that alignctl does not read.
Result<KubeletConfig> ConfigOf(const Setup& setup);

// `changes`, and those of --config that set the policies of the CPU, memory and topology manager to
// none and remove cpuManagerPolicyOptions, which a kubelet with policy none refuses. A file that is
// among `changes` is changed once. PlanDetach restores all of that as long as nothing else changes
// the file.
// Errors: kInvalidArgument, with what to do by hand: a policy is set by a flag or by a file of
// --config-dir.
Result<std::vector<Change>> PlanWithoutManagers(FileView files, const Setup& setup,
                                                std::vector<Change> changes);

}  // namespace alignd::kubelet
